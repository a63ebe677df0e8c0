"""Sends the outbox messages of one destination: a shard, or a queue that may have no room.

A turn takes some of them in their order and sends them as one batch. The next one begins when that is answered:

    take -> [durable] -> open -> post -> answered -> [acknowledged; what was not taken goes back to its place]

A turn that was not taken as a whole is followed by a pause, each twice as long as the one before, and by a turn of one
outbox message. Meanwhile the sender has that outbox message in memory and nothing else, so one that is never emptied
keeps up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leveret.cluster.transfer.message import MessageMetadata, MetadataCache, OutboxBatch, OutboxMessage, name_of
from leveret.core.broker import Broker
from leveret.core.dedup import digest
from leveret.core.errors import BrokerClosed, InvalidReceipt, JournalFailed, LeveretError
from leveret.core.held import Held
from leveret.core.properties import Properties
from leveret.core.queue import Queue
from leveret.observability.logs import Log
from leveret.protocols.amqp.bodies import tried
from leveret.storage.blobs import body_bytes

if TYPE_CHECKING:
    from leveret.protocols.amqp.hub import Hub
    from leveret.runtime.large_bodies import LargeBodies

PREFIX = "outbox/"  # of the queues in the virtual host for such
TURN_MAX = 256  # outbox messages
TURN_BYTES_MAX = 1 << 20
IN_FLIGHT_BYTES_MAX = 16 << 20  # of all senders of a shard; over it each may still send one outbox message
ANSWER_MS = 5_000  # after which outbox messages are sent again
PAUSE_MIN_MS = 100
PAUSE_MAX_MS = 1_000
BLOB = 2  # of Message.flags
VHOST, QUEUE, SHARD = "x-leveret-vhost", "x-leveret-queue", "x-leveret-shard"  # arguments of the queue of a sender

LOG = Log("node")


class OutboxDestination(NamedTuple):
    """A queue of another shard; without a name, whatever queues a shard has for an outbox message."""

    shard_id: str
    vhost: str = ""
    queue: str = ""

    @property
    def sender(self) -> str:
        """The name of the queue with its outbox messages; those of a virtual host and a queue may be too long for
        one.
        """
        named = f"{self.vhost}\0{self.queue}".encode("utf-8", "surrogateescape")
        return PREFIX + (digest(named).hex() if self.queue else self.shard_id)

    @property
    def arguments(self) -> dict[str, str]:
        """What is kept with that queue; the shard of a queue may be another one by then."""
        return {VHOST: self.vhost, QUEUE: self.queue} if self.queue else {SHARD: self.shard_id}

    def __str__(self) -> str:
        return f"queue '{self.queue}' in vhost '{self.vhost}'" if self.queue else f"shard {self.shard_id}"


def destination_of(arguments: dict[str, Any]) -> OutboxDestination:
    """The reverse of Destination.arguments."""
    return OutboxDestination(arguments.get(SHARD, ""), arguments.get(VHOST, ""), arguments.get(QUEUE, ""))


class OutboxNode(Protocol):
    """What an outbox needs of its node."""

    def definitions(self) -> AbstractContextManager[Broker]:
        """What there is in all shards, under a lock; from whatever thread, with or without the lock of a shard."""

    def reached(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        """The queues that a message goes to, by shard; from whatever thread, under the lock of a shard."""

    def post(self, shard_id: str, batch: OutboxBatch, done: Callable[[int], None]) -> None:
        """Bring outbox messages to a shard, then say, not under a lock, how many, from the first on, are durable
        there.
        """

    def wake(self, job: Callable[[], None]) -> None:
        """Do something soon in the loop; from whatever thread."""


class InFlightBytes:
    """What all senders of a shard have under way."""

    bytes = 0


class Turn:
    """Outbox messages that were taken together."""

    def __init__(self, messages: list[Held]) -> None:
        """They are in the outbox; what large ones say is not fetched."""
        self.messages = messages
        self.bytes = sum(map(_bytes_of, messages))
        self.taken: set[int] = set()
        self.until_ms: int | None = None
        """When the answer is not waited for any more; None: it is not sent yet."""


class DestinationSender:
    """The outbox messages for one destination; in the loop and not under a lock, where nothing else is said."""

    def __init__(
        self,
        destination: OutboxDestination,
        shard_id: str,
        core: Broker,
        queue: Queue,
        node: OutboxNode,
        load: InFlightBytes,
    ) -> None:
        """They are in a queue of a shard, and sent as soon as there is a hub."""
        self.destination = destination
        self.queue = queue
        self.hub: Hub | None = None
        self.dropped = 0
        """Outbox messages whose queues had gone when they could be sent."""
        self._shard_id = shard_id
        self._core = core
        self._node = node
        self._load = load
        self._woken = False
        self._turn: Turn | None = None
        self._first: Held | None = None  # of a turn that was not taken as a whole
        self._size = TURN_MAX
        self._pause_ms = 0
        self._resume_ms = 0

    # What others see

    @property
    def depth(self) -> int:
        return self.queue.depth + self.queue.leased

    @property
    def is_stuck(self) -> bool:
        """Whether nothing is taken, for longer than a moment."""
        return self._pause_ms == PAUSE_MAX_MS

    @property
    def age_ms(self) -> int:
        """How old the oldest outbox message is."""
        return max((self._core.now_ms - each.enqueued_ms for each in self._in_memory()), default=0)

    def _in_memory(self) -> list[Held]:
        if self._turn is not None:
            return self._turn.messages
        return [] if self._first is None else [self._first]

    # Turns

    def wake(self) -> None:
        """There is an outbox message; from whatever thread, under the lock of the shard."""
        if not self._woken:
            self._woken = True
            self._node.wake(self._begin)

    def retry(self) -> None:
        turn = self._turn
        if turn is not None and turn.until_ms is not None and turn.until_ms <= self._core.now_ms:
            self._end(turn)
        elif turn is None and self.depth:
            self._begin()

    def _begin(self) -> None:
        """Take outbox messages; they are sent as soon as what put them here is durable."""
        self._woken = False
        if self.hub is None or self._turn is not None or self._resume_ms > self._core.now_ms:
            return
        try:
            with self.hub.locked():
                first, self._first = self._first, None
                messages = [first] if first is not None else self._take()
                if messages:
                    self._turn = turn = Turn(messages)
                    self._load.bytes += turn.bytes
                    self.hub.when_durable(lambda: self._node.wake(partial(self._open, turn)))
        except (JournalFailed, BrokerClosed):
            pass
        except LeveretError as error:  # it cannot be read now
            LOG.warning("dead letter not read", shard=self._shard_id, reason=error)
            self._pause(is_first=False)

    def _take(self) -> list[Held]:
        """As many outbox messages as a turn may have, up to one that cannot be read."""
        bytes_max = max(1, min(TURN_BYTES_MAX, IN_FLIGHT_BYTES_MAX - self._load.bytes))
        messages: list[Held] = []
        total_bytes = 0
        try:
            while len(messages) < self._size and total_bytes < bytes_max and (found := self.queue.take(1)):
                messages += found
                total_bytes += _bytes_of(found[0])
        except LeveretError:
            if not messages:
                raise
        return messages

    def _open(self, turn: Turn) -> None:
        """Read outbox messages; large bodies are elsewhere."""
        if self.hub is None or turn is not self._turn:
            return
        pointers = [each.message.body for each in turn.messages if each.message.flags & BLOB]
        if pointers and self.hub.runtime.large is not None:
            fetch = partial(_fetched, self.hub.runtime.large, pointers)
            self.hub.in_thread(fetch, partial(self._post, turn))
        else:
            self._post(turn, [])

    def _post(self, turn: Turn, bodies: list[bytes | Exception]) -> None:
        """Send a turn, up to an outbox message that cannot be read."""
        if turn is not self._turn:
            return
        turn.until_ms = self._core.now_ms + ANSWER_MS
        shard_id, messages = self._sorted(turn, bodies)
        if messages:
            batch = OutboxBatch([*messages.values()], self.destination.queue)
            self._node.post(shard_id, batch, partial(self._answered, turn, [*messages]))
        else:
            self._end(turn)

    def _sorted(self, turn: Turn, bodies: list[bytes | Exception]) -> tuple[str, dict[int, OutboxMessage]]:
        """Where the outbox messages of a turn go, and those that go there, by number; drops those whose queue has
        gone.
        """
        shard_ids: dict[MessageMetadata, str | None] = {}
        there = ""
        messages: dict[int, OutboxMessage] = {}
        for seq, message in self._messages(turn, bodies):
            metadata = message.metadata
            if metadata not in shard_ids:
                shard_ids[metadata] = self._shard_id_of(metadata)
            shard_id = shard_ids[metadata]
            if shard_id is None:
                self.dropped += 1
                turn.taken.add(seq)
            elif shard_id == (there or shard_id):
                there, messages[seq] = shard_id, message
            else:
                break  # their queue has just moved to another shard
        return there, messages

    def _messages(self, turn: Turn, bodies: list[bytes | Exception]) -> Iterator[tuple[int, OutboxMessage]]:
        """What a turn has, by number, up to what cannot be read."""
        all_metadata, large = MetadataCache(), iter(bodies)
        for held in turn.messages:
            message = held.message
            body = next(large) if message.flags & BLOB else message.body
            if isinstance(body, Exception):
                LOG.warning("dead letter not read", shard=self._shard_id, reason=body)
                return
            yield (
                held.seq,
                OutboxMessage(name_of(self._shard_id, self._core.tag, message), all_metadata.of(message), body),
            )

    def _shard_id_of(self, metadata: MessageMetadata) -> str | None:
        """The shard that an outbox message goes to; None: its queue was deleted, or is in the shard of the outbox by
        now.
        """
        reached = self._node.reached(metadata.vhost, metadata.exchange, metadata.keys, metadata.guide)
        reached.pop(self._shard_id, None)
        _, _, queue = self.destination
        if queue:
            return next((shard_id for shard_id, names in reached.items() if queue in names), None)
        return self.destination.shard_id if self.destination.shard_id in reached else None

    def _answered(self, turn: Turn, posted: list[int], taken: int) -> None:
        """A shard has so many outbox messages; it has no room for more, or could not be reached."""
        turn.taken.update(posted[:taken])
        if turn is self._turn:
            self._end(turn)

    def _end(self, turn: Turn) -> None:
        """Settle what was taken, and go on at once, or later with the first outbox message that was not."""
        if self.hub is None:
            return
        left = [each for each in turn.messages if each.seq not in turn.taken]
        self._turn, self._first = None, next(iter(left), None)
        self._load.bytes -= turn.bytes
        with suppress(JournalFailed, BrokerClosed), self.hub.locked():
            for held in turn.messages:
                with suppress(InvalidReceipt):
                    if held.seq in turn.taken:
                        held.queue.ack(held, held.lease)
                    elif held is not self._first:
                        held.queue.nack(held, held.lease, 0)
        if left:
            self._pause(is_first=bool(turn.taken))
        else:
            self._go_on()

    def _pause(self, *, is_first: bool) -> None:
        """Wait; `is_first`: it went on until now."""
        was_stuck = self.is_stuck
        self._size = 1
        self._pause_ms = PAUSE_MIN_MS if is_first else min(max(2 * self._pause_ms, PAUSE_MIN_MS), PAUSE_MAX_MS)
        self._resume_ms = self._core.now_ms + self._pause_ms
        if self.is_stuck and not was_stuck:
            LOG.warning("outbox waits", shard=self._shard_id, destination=self.destination, messages=self.depth)

    def _go_on(self) -> None:
        if self.is_stuck:
            LOG.info("outbox resumes", shard=self._shard_id, destination=self.destination)
        self._size = min(2 * self._size, TURN_MAX)
        self._pause_ms = self._resume_ms = 0
        if self.queue.depth:
            self.wake()

    def close(self) -> None:
        """Send no more; under the lock of the shard."""
        self.hub = None
        messages = self._in_memory()
        self._turn = self._first = None
        for held in messages:
            with suppress(InvalidReceipt):
                held.queue.nack(held, held.lease, 0)


def _bytes_of(held: Held) -> int:
    """How much of memory an outbox message takes when it is sent."""
    body = held.message.body
    return body_bytes(body) if held.message.flags & BLOB else len(body)


def _fetched(large: LargeBodies, pointers: list[bytes]) -> list[bytes | Exception]:
    """Large bodies; in some thread."""
    return [tried(partial(large.get, pointer)) for pointer in pointers]
