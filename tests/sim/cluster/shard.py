"""A shard at work: the real broker on the real store, whose table is simulated. What clients ask is done in batches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.cluster.proxy.claims import Delivered
from leveret.cluster.proxy.orphaned_deliveries import OrphanedDeliveries
from leveret.cluster.transfer.message import OutboxBatch
from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.errors import DamagedJournal, JournalFailed, LeveretError, StoreUnreachable
from leveret.core.held import Held
from leveret.core.properties import Properties, content
from leveret.core.publish import route_of
from leveret.core.queue import Queue
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.postgres.store import TableStore, Takeover
from leveret.storage.options import JournalOptions
from tests.sim.cluster.loop import Process
from tests.sim.cluster.mail import ARGUMENTS, DEAD, FULL, Brought, MailRoom, name_of
from tests.sim.cluster.table import SimTable

if TYPE_CHECKING:
    from tests.sim.cluster.clients import Cluster

LEASE_MS = 8_000
START_MS = 1_700_000_000_000
OPTIONS = JournalOptions(segment_bytes=2048, cache_bytes=512, checkpoint_bytes=3000, spare_bytes=0)
WORK = "work"


class Request(NamedTuple):
    """What somebody wants of a shard, and who waits for the answer; a verb of Shard by its name."""

    verb: str
    given: tuple[Any, ...]
    answer: Callable[[Any], None]


class Server(Process):
    """A process that can have shards, and reaches those of others."""

    shards: int
    cluster: Cluster


class ShardHost:
    """One shard that a process owns, or believes to."""

    mail_class = MailRoom

    def __init__(
        self, process: Server, table: SimTable, number: int, claim: Takeover,
        fenced: Callable[[], None], damaged: Callable[[DamagedJournal], None],
    ) -> None:  # fmt: skip
        self.process = process
        self.number = number
        self.epoch = claim.epoch or 0
        self.open = True
        self.busy = False
        """Whether it is amid a verb, which may wait for a body to be read back."""
        self._fenced = fenced
        self._damaged = damaged
        self._ended: Callable[[], None] = lambda: None
        self._requests: list[Request] = []
        self.next = (number + 1) % process.shards
        """The shard that gets its letters."""
        self._wake: Callable[[Any], None] | None = None
        journal = FileJournal(OPTIONS, self._clock)
        self.broker = Broker(journal, 7)
        self.mail = self.mail_class(self)
        self.store = self.opened(table, journal, claim)
        self.broker.tick(self._clock())
        messages = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name_of(DEAD, self.next)}
        self.broker.declare_queue("/", WORK, messages)
        for kind, arguments in ARGUMENTS.items():
            self.broker.declare_queue("/", name_of(kind, number), arguments)
        self.unclaimed = OrphanedDeliveries(self.broker)
        self.unclaimed.hold_back()
        self.store.commit.flush()
        self.mail.start()

    def opened(self, table: SimTable, journal: FileJournal, claim: Takeover) -> TableStore:
        """Take the shard over and recover it."""
        return TableStore(
            table, journal, self.broker.restorer, nullcontext(), self._clock, OPTIONS, claim=claim, threaded=False,
            on_failure=lambda error: None, pause=lambda pause_s: self.process.sleep(pause_s * 1000),
        )  # fmt: skip

    def _clock(self) -> int:
        return START_MS + self.process.loop.now_ms

    def ask(self, request: Request) -> None:
        """Take a request."""
        self._requests.append(request)
        if self._wake is not None:
            wake, self._wake = self._wake, None
            wake(None)

    def run(self) -> None:
        """Serve until the journal refuses, or until somebody ends this."""
        try:
            while self.open or self._requests:
                if not self._requests:
                    self.process.wait(self._rest)
                if self._requests:
                    self._serve()
            self.store.checkpoint()
        except JournalFailed:
            self._fenced()
        finally:
            self.open = False
            self._ended()

    def _rest(self, wake: Callable[[Any], None]) -> None:
        self._wake = lambda answer: self.process.loop.after(0, lambda: wake(answer))

    def _serve(self) -> None:
        """Do what was asked for, commit all of it, then answer."""
        requests, self._requests = self._requests, []
        self.busy = True
        self.broker.tick(self._clock())
        answers = [self._done(request) for request in requests]
        self.store.commit.flush()
        self.mail.committed()
        for request, answer in zip(requests, answers, strict=True):
            request.answer(answer)
        if self.process.loop.random.random() < 0.2:
            self._housekeep()
        self.busy = False

    def _housekeep(self) -> None:
        try:
            self.store.housekeep()
        except DamagedJournal as damaged:
            self._damaged(damaged)
        except StoreUnreachable:
            pass

    def _done(self, request: Request) -> Any:
        """The answer of a verb; none when the table cannot be read, or, for somebody stale, not any more."""
        try:
            return getattr(self, request.verb)(*request.given)
        except DamagedJournal as damaged:
            self._damaged(damaged)
        except StoreUnreachable:
            pass
        return None

    def drain(self, ended: Callable[[], None]) -> None:
        """Finish what was asked for, take a checkpoint, and end."""
        self.work(self.mail.outbox.close)
        self.open = False
        self._ended = ended
        if self._wake is not None:
            wake, self._wake = self._wake, None
            wake(None)

    def drop(self) -> None:
        """Do nothing more; a frame that is under way may still be taken."""
        self.open = False
        self._requests = []
        self.store._writer.give_up()

    @property
    def committed(self) -> int:
        """The last frame that is durable."""
        return self.store.journal.durable

    # Verbs

    def work(self, job: Callable[[], None]) -> None:
        """Do something in turn, for nobody."""
        self.ask(Request("do", (job,), lambda _: None))

    def do(self, job: Callable[[], None]) -> None:
        """Do something."""
        job()

    def bring(self, batch: OutboxBatch) -> list[Brought]:
        """Take letters of another shard; gives those that it has now."""
        return self.mail.bring(batch)

    def move(self, held: Held, lease: int) -> bool:
        """Move a message of WORK to a queue of the next shard, in one frame; False when its lease has ended."""
        queue, target = self.queue(WORK), name_of(FULL, self.next)
        try:
            message = queue.leased_as(held, lease).message
        except LeveretError:
            return False
        away = self.broker.away("/", target, message.properties) if self.broker.away is not None else None
        assert away is not None, "it is in another shard"
        self.broker.publish([away[1]], route_of("", target), *content(away[0], message.body))
        queue.ack(held, lease)
        return True

    def queue(self, name: str) -> Queue:
        """A queue of this shard."""
        found: Queue = self.broker.topology.vhost("/").queue(name)
        return found

    def held(self, name: str) -> int:
        """How many messages a queue has, whatever they wait for."""
        queue = self.queue(name)
        return queue.depth + queue.leased + queue.scheduled + queue.backing_off

    def bodies(self, name: str) -> list[str]:
        """All that waits in a queue."""
        return [browse.read(held).body.decode() for held in browse.ready_after(self.queue(name), (), 1000)[0]]

    def publish(self, name: str, message: str) -> int:
        """Put a message into a queue."""
        wire, header_len = content(Properties(), message.encode())
        return self.broker.send(self.queue(name), wire, header_len)

    def take(self, name: str) -> tuple[Held, int, Delivered, str] | None:
        """The next message of a queue, with its lease and what the next owner knows it by."""
        for held in self.queue(name).take(1, LEASE_MS):
            known = Delivered(1, held.seq, held.enqueued_ms, held.group, held.deliveries, held.priority)
            return held, held.lease, known, held.message.body.decode()
        return None

    def settle(self, name: str, held: Held, lease: int, verb: str) -> bool:
        """End a lease by `ack` or `reject`; False when it has ended."""
        try:
            getattr(self.queue(name), verb)(held, lease)
        except LeveretError:
            return False
        return True

    def settle_again(self, name: str, known: Delivered, verb: str) -> bool:
        """Settle a message of which nobody knows whether it is settled; False when it is somebody else's by now."""
        return self.unclaimed.settle(self.queue(name), known, ("ack", "nack", "reject").index(verb))
