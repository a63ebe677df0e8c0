"""Clusters with a classic mistake each. A simulation that lets one of them pass proves nothing.

no-epoch            an append does not look at the epoch
no-sequence         an append does not look at the number of the frame before it
any-epoch           a takeover does not look whether its epoch is the highest
impatient           a takeover does not wait for an append that is under way
confirm-cancelled   an answer with a warning, after a cancelled wait for the standby, is believed
look-not-barrier    after an unknown outcome the row of the shard is read, without a change that waits for the standby
believe-refusal     after an unknown outcome the frame is sent again, and a refusal taken to mean that it is there
early-confirm       clients are answered before the commit
no-dedup            letters from another shard are taken however often they come
no-bundles          letters of one turn are sent each for itself, and may overtake each other
send-early          letters are sent before the commit that puts them into the outbox
hold-up             dead letters wait behind what waits for a full queue
forget-settled      what clients settled with the owner before is not settled again
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from leveret.cluster.proxy.claims import Delivered
from leveret.cluster.transfer.message import OutboxBatch
from leveret.storage.journal.postgres.table import SegmentRow, ShardRow
from tests.sim.cluster.database import State
from tests.sim.cluster.mail import FULL, Brought, MailRoom
from tests.sim.cluster.node import Node
from tests.sim.cluster.shard import Request, ShardHost
from tests.sim.cluster.table import SimTable
from tests.sim.cluster.world import explore

SEEDS_MAX = 400
NUMBERS = itertools.count()


class NoEpoch(SimTable):
    """Whoever once took the shard may append."""

    def is_mine(self, state: State) -> bool:
        """Always."""
        return True


class NoSequence(SimTable):
    """A frame goes wherever."""

    def follows(self, state: State, row: SegmentRow) -> bool:
        """Always."""
        return True


class AnyEpoch(SimTable):
    """Whoever comes last is the owner."""

    def may_take(self, state: State, epoch: int, owner: str) -> bool:
        """Always."""
        return True


class Impatient(SimTable):
    """Takes over while an append waits for the standby."""

    impatient = True


class ConfirmCancelled(SimTable):
    """Does not hear warnings."""

    def trusts(self, warned: bool) -> bool:
        """Always."""
        return True


class LookNotBarrier(SimTable):
    """Reads what may not be durable yet."""

    def barrier(self) -> ShardRow | None:
        """The row as it is."""
        found = self.shard()
        return found if found.epoch == self._epoch else None


class BelieveRefusal(SimTable):
    """Sends frames again, and takes a refusal of a second attempt for a success of the first."""

    _attempted = 0

    def barrier(self) -> ShardRow | None:
        """Say that the last frame is not there."""
        return super().barrier() or ShardRow(self._epoch, "", self._attempted - 1, 1 << 30, 1, "", "")

    def append(self, row: SegmentRow) -> bool:
        """Append, or be sure that it was done before."""
        again, self._attempted = self._attempted == row.seq, row.seq
        return super().append(row) or again


class EarlyConfirm(ShardHost):
    """Answers first."""

    def _serve(self) -> None:
        """Answer, then commit."""
        self.broker.tick(self._clock())
        for request in self._requests:
            request.answer(self._done(request))
        self._requests = []
        self.store.commit.flush()
        self.mail.committed()


class NoDedup(MailRoom):
    """Has no memory for ids."""

    def bring(self, batch: OutboxBatch) -> list[Brought]:
        """Take letters under other names."""
        messages = [each._replace(name=f"{each.name[:-4]}{next(NUMBERS):04x}") for each in batch.messages]
        return [Brought(each.sender, 0, False) for each in super().bring(batch._replace(messages=messages))]


class NoBundles(MailRoom):
    """Has many messengers."""

    def post(self, home: str, batch: OutboxBatch, done: Callable[[int], None]) -> None:
        """Send each letter as if it were the only one."""
        answers: list[int] = []

        def answered(taken: int) -> None:
            answers.append(taken)
            if len(answers) == len(batch.messages):
                done(sum(answers))

        for each in batch.messages:
            super().post(home, OutboxBatch([each], batch.queue), answered)


class EarlyMail(MailRoom):
    """Does not wait for commits, nor for its turn after what is asked for now."""

    def __init__(self, host: ShardHost) -> None:
        self._jobs: list[Callable[[], None]] = []
        super().__init__(host)

    def when_durable(self, action: Callable[[], None]) -> None:
        """Do it now."""
        action()

    def wake(self, job: Callable[[], None]) -> None:
        """Do something as soon as what is done now is done."""
        self._jobs.append(job)
        self._host.work(self.send)

    def send(self) -> None:
        """Do what waits."""
        while self._jobs:
            self._jobs.pop(0)()


class SendEarly(ShardHost):
    """Sends letters of what it has not committed."""

    mail: EarlyMail
    mail_class = EarlyMail

    def _done(self, request: Request) -> Any:
        answer = super()._done(request)
        self.mail.send()
        return answer


class HoldUp(MailRoom):
    """Has one line for everybody."""

    def post(self, home: str, batch: OutboxBatch, done: Callable[[int], None]) -> None:
        """Send no dead letters while others wait for room."""
        if batch.queue or self.is_empty(FULL):
            super().post(home, batch, done)
        else:
            self.wake(partial(done, 0))


class ForgetSettled(ShardHost):
    """Believes that the owner before it has written everything."""

    def settle_again(self, name: str, known: Delivered, verb: str) -> bool:
        """Do nothing."""
        return True


def with_table(table: type[SimTable]) -> type[Node]:
    """A node whose journals are in such a table."""
    return type(table.__name__, (Node,), {"table_class": table})


def with_mail(mail: type[MailRoom]) -> type[Node]:
    """A node whose shards have such outboxes and inboxes."""
    return with_host(type(mail.__name__, (ShardHost,), {"mail_class": mail}))


def with_host(host: type[ShardHost]) -> type[Node]:
    """A node with such shards."""
    return type(host.__name__, (Node,), {"host_class": host})


class Mutant(NamedTuple):
    """A node with a mistake, and a seed that shows it soon; after a change of the simulation another one may."""

    node_class: type[Node]
    seed: int


MUTANTS = {
    "no-epoch": Mutant(with_table(NoEpoch), 13),
    "no-sequence": Mutant(with_table(NoSequence), 6),
    "any-epoch": Mutant(with_table(AnyEpoch), 26),
    "impatient": Mutant(with_table(Impatient), 2617),
    "confirm-cancelled": Mutant(with_table(ConfirmCancelled), 2),
    "look-not-barrier": Mutant(with_table(LookNotBarrier), 2),
    "believe-refusal": Mutant(with_table(BelieveRefusal), 8),
    "early-confirm": Mutant(with_host(EarlyConfirm), 2),
    "no-dedup": Mutant(with_mail(NoDedup), 1),
    "no-bundles": Mutant(with_mail(NoBundles), 15),
    "send-early": Mutant(with_host(SendEarly), 69),
    "hold-up": Mutant(with_mail(HoldUp), 20),
    "forget-settled": Mutant(with_host(ForgetSettled), 3),
}


def seeds_until_caught(name: str, seeds_max: int = SEEDS_MAX) -> int | None:
    """How many seeds it took to see that something is wrong; None when that was not seen."""
    node_class, seed = MUTANTS[name]
    outcome = explore(seed, seeds_max, node_class)
    return None if outcome.failed is None else outcome.seeds
