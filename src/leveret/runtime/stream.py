"""The verbs of a stream under the lock of the runtime: append, and read from any place, and again.

What appends gives the commit batch to wait for. Only what is durable can be read. Readers of very much get blocks of
records as they lie in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from leveret.core.arguments import PARTITIONS
from leveret.core.dispatch import note_read
from leveret.core.errors import InvalidArgument, NotSupported, QueueNotFound
from leveret.core.queue import Queue as CoreQueue
from leveret.core.streams import Recorder
from leveret.runtime.bodies import BYTES_TYPE, HEADERS
from leveret.runtime.declare import milliseconds
from leveret.runtime.keywords import RecordOptions
from leveret.runtime.message import all_bytes
from leveret.runtime.outgoing import Outgoing, PreparedMessage, in_trace, prepare
from leveret.runtime.reading import Place, StreamReader
from leveret.runtime.verbs import Durable, OldTwins, Public, durably, twin
from leveret.storage.stream.log import PartitionLog
from leveret.storage.stream.reader import PIECE_BYTES_MAX, piece, reach, start_named
from leveret.storage.stream.recorder import FILTER, KEY, PRODUCER, SEQUENCE, StreamRecorder, check_labels

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime

BLOCKS_BYTES_MAX = PIECE_BYTES_MAX
"""Of the blocks of one answer, or one block if that is more."""
SEND_MANY_MAX = 100_000  # records of one call wait in memory together


class Appended(NamedTuple):
    """Where a record is; `offset` is None when its producer had sent it before."""

    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """What one partition holds."""

    partition: int
    first_offset: int
    next_offset: int
    """Of the record that comes next: everything before it is durable."""
    records: int
    size_bytes: int
    segments: int


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What a stream holds now, and who reads it."""

    name: str
    records: int
    size_bytes: int
    segments: int
    published: int
    consumers: int
    waiters: int
    partitions: tuple[PartitionStats, ...]


def stream_arguments(
    partitions: int | None = None,
    max_age: str | float | timedelta | None = None,
    max_bytes: int | None = None,
    segment_bytes: int | None = None,
) -> dict[str, Any]:
    """The options of broker.stream as arguments of a declaration."""
    if isinstance(max_age, timedelta):
        max_age = max_age.total_seconds()
    if isinstance(max_age, int | float):
        max_age = f"{max(1, milliseconds('max_age', max_age) // 1000)}s"
    given = {
        PARTITIONS: partitions,
        "x-max-age": max_age,
        "x-max-length-bytes": max_bytes,
        "x-stream-max-segment-size-bytes": segment_bytes,
    }
    return {name: value for name, value in given.items() if value is not None}


def partition_stats(recorder: Recorder | None) -> tuple[PartitionStats, ...]:
    """The figures of each partition of a stream."""
    return tuple(
        PartitionStats(
            each["partition"],
            each["first_offset"],
            each["committed_offset"] + 1,
            each["messages"],
            each["size_bytes"],
            each["segments"],
        )
        for each in ([] if recorder is None else recorder.figures())
    )


class RuntimeStream(OldTwins, metaclass=Public):
    """One stream: an append-only log in one or more partitions."""

    __slots__ = ("__weakref__", "_core", "runtime")

    def __init__(self, runtime: Runtime, core: CoreQueue) -> None:
        self.runtime = runtime
        self._core = core

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._core.name

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return self._core.policy.partitions

    @property
    def core(self) -> CoreQueue:
        """The queue in the core; only for use under the lock."""
        if self._core.deleted:
            raise QueueNotFound(f"stream '{self._core.name}' was deleted: declare it again with broker.stream()")
        return self._core

    @property
    def anyway(self) -> CoreQueue:
        """The queue in the core, even if it was deleted."""
        return self._core

    @property
    def recorder(self) -> StreamRecorder:
        """The partitions."""
        recorder = self.core.recorder
        assert isinstance(recorder, StreamRecorder), "every stream has one"
        return recorder

    # Sending

    def post_many(self, bodies: Iterable[Any], **options: Unpack[RecordOptions]) -> Durable[list[Appended]]:
        """Append without waiting: the commit batch to wait for, and where they are. A `sequence` counts on for each."""
        batch = list(bodies)
        if len(batch) > SEND_MANY_MAX:
            raise InvalidArgument(f"send_many takes {SEND_MANY_MAX} records at a time, not {len(batch)}")
        if not options and self.partitions == 1 and all_bytes(batch, self._bytes_max):
            return self._append_plain(batch)
        shared: dict[str, Any] = {**options}
        first = shared.pop("sequence", None)
        return self.post(
            [
                self.prepare(body, **shared, sequence=None if first is None else first + place)
                for place, body in enumerate(batch)
            ]
        )

    @property
    def _bytes_max(self) -> int:
        """The largest body."""
        return self._core.policy.max_message_bytes or self.runtime.options.message_bytes_max

    def prepare(
        self,
        body: Any,
        headers: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
        key: str | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        filter: str | None = None,
    ) -> PreparedMessage:
        """Check and convert a record; what concerns the stream travels in headers, as with every other protocol."""
        if (producer is None) != (sequence is None):
            raise InvalidArgument("a producer numbers its records: give both producer and sequence, or neither")
        own = {KEY: key, FILTER: filter, PRODUCER: producer, SEQUENCE: sequence}
        labels = {name: value for name, value in own.items() if value is not None}
        told = {**(headers or {}), **labels}
        check_labels(told)
        outgoing = in_trace(Outgoing(body, headers=told or None, properties=properties))
        return prepare(outgoing, self._bytes_max)

    def post(self, records: list[PreparedMessage]) -> Durable[list[Appended]]:
        """Append records without waiting: the commit batch to wait for, and where they are."""
        wires = [record.wire() for record in records]
        with self.runtime as core:
            queue, recorder = self.core, self.recorder
            sent = []
            for wire, header_len in wires:
                core.publish([queue], queue.route, wire, header_len)
                sent.append(Appended(recorder.partition, None if recorder.repeated else recorder.offset))
            return self.runtime.commit(), sent

    def _append_plain(self, bodies: list[bytes]) -> Durable[list[Appended]]:
        """The short way of records that are nothing but bytes, in a stream of one partition."""
        with self.runtime as core:
            first = self.recorder.logs[0].next_offset
            core.send_many(self.core, HEADERS[BYTES_TYPE], bodies)
            return self.runtime.commit(), [Appended(0, first + place) for place in range(len(bodies))]

    # Reading

    def reader(
        self,
        partition: int = 0,
        offset: Place = "next",
        *,
        filters: Iterable[str] | None = None,
        match_unfiltered: bool = False,
    ) -> StreamReader:
        """A place in one partition that moves on as it is read; close it, or use it in a `with` block.

        `offset` is that of a record, "first", "last", "next" (what comes from now on), a datetime, or an interval such
        as "1h" before now. With `filters`, only records that were sent with one of these filter values are read.
        """
        return StreamReader(self, self.check_partition(partition), start_named(offset), filters, match_unfiltered)

    def note_read(self, count: int) -> None:
        """Count records that were read."""
        if count:
            with self.runtime:
                note_read(self._core, count)

    # Looking

    def earliest(self, partition: int = 0) -> int:
        """The offset of the oldest record; of the next one when there is none."""
        return self.recorder.earliest(self.check_partition(partition))

    def latest(self, partition: int = 0) -> int:
        """The offset of the record that comes next."""
        return self.recorder.latest(self.check_partition(partition))

    def at(self, partition: int, when: datetime) -> int:
        """The offset of the first record of a time or later."""
        return self.recorder.at(self.check_partition(partition), start_named(when).value)

    def stats(self) -> StreamStats:
        """Its figures."""
        with self.runtime:
            queue = self.core
            waiters = self.runtime.waiters.count(queue)
            published, consumers = queue.counts["published"], len(queue.consumers or ())
        partitions = partition_stats(queue.recorder)
        return StreamStats(
            self.name,
            sum(each.records for each in partitions),
            sum(each.size_bytes for each in partitions),
            sum(each.segments for each in partitions),
            published,
            consumers,
            waiters,
            partitions,
        )

    def check_partition(self, partition: int) -> int:
        """Refuse a partition that does not exist."""
        if type(partition) is not int or not 0 <= partition < self.partitions:
            raise InvalidArgument(f"stream '{self.name}' has partitions 0 to {self.partitions - 1}, not {partition!r}")
        return partition

    @durably
    def delete(self) -> Durable[int]:
        """Delete the stream with everything in it, and its groups; give the number of records."""
        with self.runtime as core:
            count = core.delete_queue(self.core)
            self.runtime.waiters.wake_all([self._core.id])
            return self.runtime.commit(), count

    # The same for asyncio

    _adelete = twin(delete)


def streams_of(runtime: Runtime, vhost: str) -> list[RuntimeStream]:
    """Every stream of a virtual host, by name."""
    with runtime as core:
        found = [each for each in core.topology.vhost(vhost).queues.values() if each.recorder is not None]
    return [RuntimeStream(runtime, each) for each in sorted(found, key=lambda each: each.name)]


class PartitionOffsets(NamedTuple):
    """One partition: from its oldest record to before the next one; and what was asked for."""

    partition: int
    first: int
    end: int
    at: int | None = None
    """The offset of the first record of a time or later."""
    reach: int | None = None
    """The offset that so many bytes reach from another."""


def logs_of(queue: CoreQueue) -> list[PartitionLog]:
    """The partitions of a stream."""
    recorder = queue.recorder
    if not isinstance(recorder, StreamRecorder):
        raise NotSupported(f"'{queue.name}' is a queue, no stream: it has no offsets; read it by reservations")
    return recorder.logs


def log_of(queue: CoreQueue, partition: int) -> PartitionLog:
    """One partition of a stream."""
    logs = logs_of(queue)
    if not 0 <= partition < len(logs):
        raise InvalidArgument(f"stream '{queue.name}' has partitions 0 to {len(logs) - 1}, not {partition}")
    return logs[partition]


def offsets(
    queue: CoreQueue, timestamp_ms: int | None, after: Mapping[int, int] | None, size: int | None
) -> list[PartitionOffsets]:
    """The offsets of every partition; at a time, and how far so many bytes go after some, if that is asked for."""
    recorder, found = queue.recorder, []
    for number, log in enumerate(logs_of(queue)):
        assert isinstance(recorder, StreamRecorder), "logs_of has looked"
        at = None if timestamp_ms is None else recorder.at(number, timestamp_ms)
        reached = None if size is None or after is None or number not in after else reach(log, after[number], size)
        found.append(PartitionOffsets(number, log.first_offset, log.committed, at, reached))
    return found


def blocks(runtime: Runtime, queue: CoreQueue, partition: int, offset: int, end: int, size: int) -> bytes:
    """The blocks of one partition from an offset on."""
    found = piece(log_of(queue, partition), offset, end, size)
    RuntimeStream(runtime, queue).note_read(found.records)
    return found.data
