"""Messages as users see them, and the three batch loops: ids of sent, wrapping of taken, acks.

Compiled because these run once for each message; everything that costs (properties, body, receipt) waits until
it is asked for.
"""

from libc.stdint cimport uint64_t

from datetime import UTC, datetime, timedelta

from leveret.core.browse import read, state_of
from leveret.core.errors import InvalidReceipt
from leveret.core.held cimport LEASED, Held
from leveret.core.ids cimport id_of
from leveret.core.message cimport BLOB
from leveret.core.ports cimport ACKED
from leveret.core.deadletter import ORIGIN
from leveret.runtime.bodies import T, decode, decode_as
from leveret.runtime.verbs import deprecated

GROUP = "x-group-id"
DEDUP = "x-deduplication-id"
OWN = frozenset((GROUP, DEDUP, ORIGIN))     # headers that have attributes of their own
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


cdef class Peeked:
    """A message that was looked at, by browse() or scheduled(): it cannot be settled."""

    def __init__(self, *args, **kwargs) -> NoReturn:
        raise TypeError("messages come from receive() and browse()")

    @property
    def id(self) -> str:
        """Its id; a dead letter keeps the one that it had at first."""
        headers = self.content.properties.headers
        origin = headers.get(ORIGIN) if headers else None
        return id_of(self.source.tag, self.seq) if origin is None else text_of(origin)

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        if not self.content.flags & BLOB:
            return self.content.body
        if self.fetched is None:
            self.fetched = self.source.fetch(self.content.body)
        return self.fetched

    @property
    def pointer(self) -> bytes | None:
        """What stands for the body in the journal when it is in the blob store."""
        return self.content.body if self.content.flags & BLOB else None

    @property
    def body(self) -> Any:
        """The body as it was sent: bytes, text or what JSON says."""
        if self.parsed is None:
            self.parsed = decode(self.content.properties.content_type, self.data)
        return self.parsed

    def body_as(self, kind: type[T]) -> T:
        """The body as a dataclass, a model of pydantic, a struct of msgspec or what else the serializer makes of it."""
        return decode_as(kind, self.body)

    @property
    def content_type(self) -> str | None:
        """What the body is."""
        return self.content.properties.content_type

    @property
    def properties(self) -> Properties:
        """The AMQP properties."""
        return self.content.properties

    @property
    def headers(self) -> dict[str, Any]:
        """The headers that came with it, and x-death when it died."""
        headers = self.content.properties.headers
        return {name: value for name, value in headers.items() if name not in OWN} if headers else {}

    @property
    def group(self) -> str | None:
        """The group that it is ordered in."""
        return self.header(GROUP)

    @property
    def dedup_id(self) -> str | None:
        """What it was de-duplicated by."""
        return self.header(DEDUP)

    def header(self, str name) -> str | None:
        """A header that is text."""
        headers = self.content.properties.headers
        value = headers.get(name) if headers else None
        return None if value is None else text_of(value)

    @property
    def exchange(self) -> str:
        """The exchange that it was published to; empty when it was sent to the queue."""
        return self.content.exchange

    @property
    def routing_key(self) -> str:
        """The routing key that it was published with."""
        return self.content.routing_key

    @property
    def enqueued_at(self) -> datetime:
        """When it was sent."""
        return time_of(self.content.enqueued_ms)

    @property
    def due_at(self) -> datetime | None:
        """When one that was looked at appears (again); None when it is ready."""
        return time_of(self.when_ms) if self.when_ms else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of queue {self.source.name!r}, delivered {self.deliveries} times>"


cdef class ReceivedMessage(Peeked):
    """A message that was taken."""

    @property
    def leased(self) -> bool:
        """Whether it can still be settled."""
        return self.held.state == LEASED and self.held.lease == self.lease

    @property
    def redelivered(self) -> bool:
        """Whether it was handed out before."""
        return self.deliveries > 1

    @property
    def received_at(self) -> datetime:
        """When it was handed out."""
        return time_of(self.received_ms)

    @property
    def visible_until(self) -> datetime | None:
        """When it goes back to the queue unless it is settled or extended; None when its lease has no end, or is over."""
        return time_of(self.held.when_ms) if self.held.lease == self.lease and self.held.slot else None

    @property
    def receipt(self) -> str:
        """What settles it where this object is not at hand: queue.ack(receipt)."""
        return self.source.receipt_of(self)

cdef class Message(ReceivedMessage):
    """A message that was taken: say what becomes of it before its visibility timeout ends.

    ack: done. nack: again, later. extend: keep it longer. reject: never again. Otherwise it is delivered again.
    A lease that has ended raises InvalidReceipt.
    """

    def ack(self) -> None:
        """Done: it is not delivered again."""
        self.source.settle(self, "ack")

    def nack(self, delay: float | None = None) -> None:
        """Requeue it; it is redelivered after `delay` seconds or the backoff of its queue."""
        self.source.settle(self, "nack", delay)

    def extend(self, seconds: float) -> None:
        """Keep it for so many seconds from now on."""
        self.source.settle(self, "extend", seconds)

    def reject(self) -> None:
        """Never again: it becomes a dead letter."""
        self.source.settle(self, "reject")

    def __getattr__(self, str name):
        if name not in ("aack", "anack", "aextend", "areject"):
            raise AttributeError(f"'Message' object has no attribute {name!r}")
        deprecated(f"{name} is called {name[1:]} in what leveret.aopen() gives")
        (message,) = as_async([self])
        return getattr(message, name[1:])


cdef class AsyncMessage(ReceivedMessage):
    """A message that was taken, for asyncio. See leveret.Message."""

    async def ack(self) -> None:
        """Done: it is not delivered again."""
        self.source.settle(self, "ack")

    async def nack(self, delay: float | None = None) -> None:
        """Requeue it; it is redelivered after `delay` seconds or the backoff of its queue."""
        self.source.settle(self, "nack", delay)

    async def extend(self, seconds: float) -> None:
        """Keep it for so many seconds from now on."""
        self.source.settle(self, "extend", seconds)

    async def reject(self) -> None:
        """Never again: it becomes a dead letter."""
        self.source.settle(self, "reject")


def as_async(messages: list[Message]) -> list[AsyncMessage]:
    """The same messages for asyncio."""
    cdef ReceivedMessage taken
    cdef AsyncMessage message
    cdef list found = []
    for taken in messages:
        message = AsyncMessage.__new__(AsyncMessage)
        message.source, message.content, message.held, message.seq = taken.source, taken.content, taken.held, taken.seq
        message.lease, message.deliveries, message.priority = taken.lease, taken.deliveries, taken.priority
        message.received_ms, message.state = taken.received_ms, taken.state
        found.append(message)
    return found


def time_of(ms: int) -> datetime:
    """A time with its zone."""
    return EPOCH + timedelta(milliseconds=ms)


def text_of(value) -> str:
    """A header as text; long strings of other clients are bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def wrap(source: "RuntimeQueue", taken: list[Held]) -> list[Message]:
    """The messages of leases; under the lock, because a lease that ends lets go of its content."""
    cdef list messages = []
    cdef Message message
    cdef Held held
    for held in taken:
        message = Message.__new__(Message)
        message.source = source
        message.content = held.content
        message.held = held
        message.seq = held.entry.seq
        message.lease = held.lease
        message.deliveries = held.entry.deliveries
        message.priority = held.entry.priority
        message.received_ms = held.delivered_ms
        message.state = "leased"
        messages.append(message)
    return messages


def look(source: "RuntimeQueue", Held held not None) -> Peeked:
    """A held or browsed message as one that was looked at."""
    cdef Peeked peeked = Peeked.__new__(Peeked)
    peeked.source = source
    peeked.content = read(held)
    peeked.seq = held.entry.seq
    peeked.deliveries = held.entry.deliveries
    peeked.priority = held.entry.priority
    peeked.state = state_of(held)
    peeked.when_ms = held.when_ms if peeked.state != "ready" else 0
    return peeked


def ids(uint64_t tag, numbers: list[int]) -> list[str | None]:
    """The ids of numbered messages; None for those that were refused."""
    cdef uint64_t seq
    cdef list found = []
    for number in numbers:
        seq = number
        found.append(id_of(tag, seq) if seq else None)
    return found


def all_bytes(list bodies not None, Py_ssize_t size_max) -> bool:
    """Whether every body is bytes of at most that size: then they need no conversion."""
    for body in bodies:
        if type(body) is not bytes or len(<bytes>body) > size_max:
            return False
    return True


def any_stored(messages: list[Message]) -> bool:
    """Whether the body of one of them is in the blob store: getting it takes time."""
    cdef Message message
    for message in messages:
        if message.content.flags & BLOB:
            return True
    return False


def ack_all(CoreQueue queue not None, messages: Collection[ReceivedMessage]) -> int:
    """Acknowledge messages of a queue; give the number of those whose lease had ended."""
    cdef ReceivedMessage message
    cdef Held held
    cdef int late = 0
    for message in messages:
        if message.held.queue is not queue:
            raise InvalidReceipt(f"message {message.id} is not of queue '{queue.name}': acknowledge it there")
    for message in messages:
        held = message.held
        if held.state != LEASED or held.lease != message.lease:
            late += 1
        else:
            queue.counters.acked += 1
            queue.settle(held, ACKED)
    return late
