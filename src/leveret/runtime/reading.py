"""A record of a stream as its readers see it, and a place in one partition that moves on as it is read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from leveret.core.errors import InvalidArgument
from leveret.core.message import Message, restored
from leveret.core.properties import Properties
from leveret.runtime.bodies import decode, decode_as
from leveret.runtime.declare import milliseconds
from leveret.runtime.verbs import OldTwins, finish
from leveret.runtime.waiters import TaskWaiter, ThreadWaiter, Waiter
from leveret.storage.stream.blocks import StoredRecord
from leveret.storage.stream.reader import Start
from leveret.storage.stream.recorder import KEY

if TYPE_CHECKING:
    from leveret.runtime.stream import RuntimeStream

T = TypeVar("T")
READ_MAX = 100_000  # records that one call gives
READ_BYTES_MAX = 64 << 20
READ_RECORDS = 1_000
READ_BYTES = 1 << 20
_OVERHEAD_BYTES = 64  # of a record in memory, beside its content

Place = int | str | datetime
"""An offset, "first", "last", "next", an interval such as "1h", or a time."""


class StreamRecord:
    """One record: `partition` and `offset` say where it is, `body` is what was sent."""

    __slots__ = ("_message", "_record", "partition")

    def __init__(self, partition: int, record: StoredRecord) -> None:
        self.partition = partition
        self._record = record
        self._message: Message | None = None

    def __repr__(self) -> str:
        return f"<StreamRecord {self.offset} of partition {self.partition}>"

    @property
    def offset(self) -> int:
        """Its number in the partition."""
        return self._record.offset

    @property
    def timestamp_ms(self) -> int:
        """When it was appended."""
        return self._record.timestamp_ms

    @property
    def timestamp(self) -> datetime:
        """The same as a datetime."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        return self._record.body

    @property
    def body(self) -> Any:
        """The body as it was sent: bytes, text or what JSON says."""
        return decode(self.properties.content_type, self.data)

    def body_as(self, kind: type[T]) -> T:
        """The body as a dataclass, a model of pydantic, a struct of msgspec or what else the serializer makes of it."""
        return decode_as(kind, self.body)

    @property
    def properties(self) -> Properties:
        """The AMQP properties."""
        properties: Properties = self._as_message().properties
        return properties

    @property
    def headers(self) -> dict[str, Any]:
        """The headers; empty when there are none."""
        return self.properties.headers or {}

    @property
    def key(self) -> str | None:
        """What it was put into its partition by, if a key was given."""
        return self.headers.get(KEY)

    @property
    def filter(self) -> str | None:
        """Its filter value."""
        return self._record.filter_value.decode("utf-8", "surrogateescape") or None

    @property
    def producer(self) -> str | None:
        """Who sent it, if it was numbered."""
        return self._record.producer.decode("utf-8", "surrogateescape") or None

    @property
    def sequence(self) -> int | None:
        """Its number among those of its producer."""
        return self._record.sequence if self._record.producer else None

    @property
    def exchange(self) -> str:
        """The exchange that it came through."""
        return self._as_message().exchange

    @property
    def routing_key(self) -> str:
        """The routing key that it came with."""
        return self._as_message().routing_key

    def _as_message(self) -> Message:
        """The record as a message, which can read its own header."""
        if self._message is None:
            self._message = restored(self._record.route, self._record.content, self._record.header_len)
        return self._message


class StreamReader(OldTwins):
    """Reads one partition, and waits for what is yet to come; for one thread or task at a time.

    Holds one piece of the file in memory at most.
    """

    def __init__(
        self, stream: RuntimeStream, partition: int, start: Start, filters: Iterable[str] | None, match_unfiltered: bool
    ) -> None:
        wanted = None if filters is None else [value.encode() for value in filters]
        log = stream.recorder.logs[partition]
        self._stream = stream
        self._reader = log.reader(log.find(start, stream.runtime.clock.now_ms()), wanted, match_unfiltered)
        self._ahead: list[StoredRecord] = []
        """What was read and not given yet, the next one last."""
        self.partition = partition

    @property
    def offset(self) -> int:
        """The offset of the next record that it gives, or a later one."""
        return self._ahead[-1].offset if self._ahead else self._reader.offset

    @property
    def at_end(self) -> bool:
        """Whether there is nothing to give now."""
        return not self._ahead and self._reader.at_end

    def read(
        self, max_records: int = READ_RECORDS, *, max_bytes: int = READ_BYTES, wait: float = 0
    ) -> list[StreamRecord]:
        """The next records; when there is none yet, wait up to `wait` seconds for the first."""
        return finish(self.next_records(ThreadWaiter, max_records, max_bytes, wait))

    async def _aread(
        self, max_records: int = READ_RECORDS, *, max_bytes: int = READ_BYTES, wait: float = 0
    ) -> list[StreamRecord]:
        """The same as read, for asyncio."""
        return await self.next_records(TaskWaiter, max_records, max_bytes, wait)

    async def next_records(
        self, new_waiter: type[ThreadWaiter | TaskWaiter], max_records: int, max_bytes: int, wait_s: float
    ) -> list[StreamRecord]:
        """Read, and wait in a thread or in a task."""
        if not 1 <= max_records <= READ_MAX or not 1 <= max_bytes <= READ_BYTES_MAX:
            raise InvalidArgument(f"one call reads 1 to {READ_MAX} records and up to {READ_BYTES_MAX} bytes")
        found = self._take(max_records, max_bytes)
        if found or wait_s <= 0:
            return found
        clock = self._stream.runtime.clock
        until_ms = clock.now_ms() + milliseconds("wait", wait_s)
        waiter = new_waiter()
        in_time = True
        try:
            while in_time and not found:
                self._join(waiter)
                in_time = not self.at_end or await waiter.wait(clock, until_ms)
                found = self._take(max_records, max_bytes)
        finally:
            self._leave(waiter)
        return found

    def _take(self, max_records: int, max_bytes: int) -> list[StreamRecord]:
        """What there is now, within the limits."""
        found: list[StreamRecord] = []
        size = 0
        while len(found) < max_records and size < max_bytes and self._read_on():
            record = self._ahead.pop()
            size += len(record.content) + _OVERHEAD_BYTES
            found.append(StreamRecord(self.partition, record))
        self._stream.note_read(len(found))
        return found

    def _read_on(self) -> bool:
        """Have something to give; False at the end of the stream."""
        while not self._ahead and not self._reader.at_end:
            self._ahead = self._reader.read()
            self._ahead.reverse()
        return bool(self._ahead)

    def _join(self, waiter: Waiter) -> None:
        """Be woken when the stream has grown."""
        runtime = self._stream.runtime
        with runtime:
            runtime.waiters.leave(self._stream.core, waiter)
            runtime.waiters.join(self._stream.core, waiter)

    def _leave(self, waiter: Waiter) -> None:
        runtime = self._stream.runtime
        with runtime.lock:
            runtime.waiters.leave(self._stream.anyway, waiter)

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()
        self._ahead = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
