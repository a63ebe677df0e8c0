"""Letters between shards: the real outbox and what takes them, where bundles come late and answers are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.cluster.transfer.destination_sender import OutboxDestination
from leveret.cluster.transfer.message import OutboxBatch, OutboxMessage, take
from leveret.cluster.transfer.outbox import Outbox
from leveret.core.broker import Broker
from leveret.core.dedup import digest
from leveret.core.ids import parse_id
from leveret.core.properties import Properties

if TYPE_CHECKING:
    from tests.sim.cluster.shard import ShardHost

DEAD, FULL = "dead", "full"
RETRY_MS = 100
DEDUP = {"x-deduplication-window": 86_400_000}
ARGUMENTS: dict[str, dict[str, Any]] = {
    DEAD: DEDUP,
    FULL: {**DEDUP, "x-max-length": 2, "x-overflow": "reject-publish"},
}
"""Queues of every shard for letters of another one; their names end with its number."""


def name_of(kind: str, shard: int) -> str:
    """The name of a queue in a shard."""
    return f"{kind}-{shard}"


class Brought(NamedTuple):
    """A letter that a shard was brought."""

    sender: str
    number: int
    is_new: bool


class MailRoom:
    """What an outbox of a shard needs of its node: a lock that nobody else has, and a way to other shards."""

    large = None

    def __init__(self, host: ShardHost) -> None:
        self._host = host
        self._waiting: list[Callable[[], None]] = []
        self.runtime = self
        self.outbox = Outbox(str(host.number), host.broker, self)

    def start(self) -> None:
        """Begin to send, and look now and then what had no answer."""
        self.outbox.start(self)  # type: ignore[arg-type]
        self._look()

    def _look(self) -> None:
        if self._host.open:
            self._host.process.after(RETRY_MS, self._look)
            if self.outbox.depth:
                self.wake(self.outbox.retry)

    def is_empty(self, kind: str) -> bool:
        """Whether nothing is on its way to the queue of that kind."""
        return not any(self._kind_of(each.destination) == kind for each in self.outbox.waiting())

    def _kind_of(self, destination: str) -> str:
        return DEAD if destination == str(OutboxDestination(str(self._host.next))) else FULL

    # As a hub

    @contextmanager
    def locked(self) -> Iterator[Broker]:
        """Everything in a shard is done by one fiber."""
        yield self._host.broker

    def when_durable(self, action: Callable[[], None]) -> None:
        """Do something after the next commit."""
        self._waiting.append(action)

    def committed(self) -> None:
        """All that was done is durable."""
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    # As an office

    def definitions(self) -> AbstractContextManager[Broker]:
        """Nobody asks: there are no sinks."""
        raise NotImplementedError

    def wake(self, job: Callable[[], None]) -> None:
        """Do something in the turn of the shard."""
        self._host.work(job)

    def reached(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        """Names say where queues are."""
        return {key.rpartition("-")[2]: {key} for key in keys}

    def post(self, home: str, batch: OutboxBatch, done: Callable[[int], None]) -> None:
        """Send letters to whoever owns a shard."""
        process = self._host.process

        def answer(taken: int) -> None:
            process.call(lambda: self.wake(partial(done, taken)))

        bring = process.cluster.bring(int(home), batch, answer)
        process.after(0, partial(answer, 0) if bring is None else bring)

    # The other end

    def bring(self, batch: OutboxBatch) -> list[Brought]:
        """Take letters, up to one for which there is no room."""
        brought = [self._brought(batch.queue, message) for message in batch.messages]
        return brought[: take(self._host.broker, batch)]

    def _brought(self, queue: str, message: OutboxMessage) -> Brought:
        queues = self._host.broker.topology.vhost("/").queues
        key = digest(message.name)
        names = set(message.metadata.keys)
        is_new = all(found.duplicate_of(key) is None for name, found in queues.items() if name in names)
        home, _, number = message.name.partition("/")
        return Brought(f"{home}/{queue}", parse_id(self._host.broker.tag, number), is_new)
