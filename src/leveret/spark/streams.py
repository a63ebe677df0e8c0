"""Streams for Spark: a range of offsets as a table, or a streaming query that goes on from offset to offset.

The offset of a query is that of the next record of each partition. Reading a range gives the same each time, so that
with the checkpoint of Spark every record counts once. Where the records come from is a `StreamLocation`: a server, or
the files of a data directory.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound
from leveret.spark.columns import Table, chosen
from leveret.spark.options import WHOLE_MAX, Options, flag, moment_ms, partition_offsets, required, seconds, whole
from leveret.spark.records import STREAM, stream_batch, texts_of
from leveret.spark.spans import OffsetSpan, shared, split
from leveret.spark.spark_api import (
    OFFSETS_GIVEN,
    VERSION,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    need_spark,
)
from leveret.storage.stream.blocks import BlockColumns, block_at

BATCH_BYTES = 32 << 20
"""When an Arrow batch is full, with however few rows."""
BATCH_ROWS = 65_536


class Ends(NamedTuple):
    """What there is of a partition: from the oldest record to before the next one."""

    first: int
    end: int


class BlockGroup(NamedTuple):
    """Some blocks, and where they come from, for errors."""

    data: bytes
    source: str


class StreamLocation(Protocol):
    """Where the records of a stream are."""

    def ends(self) -> dict[int, Ends]:
        """What there is of each partition."""

    def at(self, timestamp_ms: int) -> dict[int, int]:
        """The offset of the first record of a time or later, in each partition."""

    def reach(self, spans: list[OffsetSpan], size: int) -> dict[int, int]:
        """The offset that about so many bytes of each span reach."""

    def piece(self, span: OffsetSpan) -> BlockGroup:
        """The blocks with the first records of a span."""


@dataclass(frozen=True)
class StreamSource:
    """What is read of a stream; fit to be sent to another process."""

    place: StreamLocation
    stream: str
    columns: str | None
    fail_on_data_loss: bool
    tasks_min: int | None
    task_rows_max: int | None

    @classmethod
    def of(cls, place: StreamLocation, options: Options) -> "StreamSource":
        """What options say."""
        source = cls(
            place,
            required(options, "stream"),
            options.get("columns"),
            flag(options, "failOnDataLoss", True),
            whole(options, "minPartitions"),
            whole(options, "maxRecordsPerPartition"),
        )
        chosen(STREAM, source.columns)
        return source

    @property
    def table(self) -> Table:
        """The columns that are read."""
        return chosen(STREAM, self.columns)

    def offsets(self, name: str, text: str) -> dict[int, int]:
        """The offsets that an option asks for."""
        ends = self.place.ends()
        if text in ("earliest", "latest"):
            return {number: (each.first if text == "earliest" else each.end) for number, each in ends.items()}
        if not text.lstrip().startswith("{"):
            return self.place.at(moment_ms(name, text))
        given = partition_offsets(name, text)
        if given.keys() != ends.keys():
            raise InvalidArgument(f"{name}: give an offset for each of the partitions 0 to {len(ends) - 1}")
        return given

    def tasks(self, start: Mapping[int, int], end: Mapping[int, int]) -> list[InputPartition]:
        """The range between offsets, cut into tasks; what is gone of it is a loss."""
        ends, spans = self.place.ends(), []
        for number, last in end.items():
            first, there = start.get(number, 0), ends.get(number, Ends(0, 0))
            if first < last and not there.first <= first <= last <= there.end:
                self.lost(f"partition {number} has offsets {there.first} to {there.end}, not {first} to {last}")
            spans.append(OffsetSpan(number, max(first, there.first), min(last, there.end)))
        return [SpanPartition(*span) for span in split(spans, self.tasks_min, self.task_rows_max)]

    def lost(self, what: str) -> None:
        """Records are not there that should be: refuse to go on, unless that was allowed."""
        if self.fail_on_data_loss:
            raise NotFound(
                f"stream '{self.stream}': {what}; retention has removed records, or the stream was made anew. Set the "
                "option failOnDataLoss to false to go on with what is there"
            )

    def read(self, span: OffsetSpan) -> Iterator[pa.RecordBatch]:
        """The records of a span."""
        columns = BlockColumns(span.first, span.end, texts_of(self.table))
        while span.first < span.end:
            try:
                piece = self.place.piece(span)
            except NotFound as error:
                self.lost(str(error))
                oldest = self.place.ends()[span.partition].first
                span = span._replace(first=max(span.first + 1, oldest))
                continue
            for first in _taken(columns, piece):
                span = span._replace(first=first)
                if columns.rows >= BATCH_ROWS or columns.size_bytes >= BATCH_BYTES:
                    yield self._batch(span.partition, columns)
        if columns.rows:
            yield self._batch(span.partition, columns)

    def _batch(self, partition: int, columns: BlockColumns) -> pa.RecordBatch:
        rows = columns.rows
        return stream_batch(self.table, self.stream, partition, rows, columns.take())


def _taken(columns: BlockColumns, piece: BlockGroup) -> Iterator[int]:
    """Put the blocks of a piece into columns, one after the other; gives the offset after each."""
    at = 0
    if not piece.data:
        raise NotFound(f"{piece.source} has nothing where records should be: it may have been cut; read again")
    while at < len(piece.data):
        head = block_at(piece.data, at)
        if head is None or not columns.add(piece.data, head.start, head.end, head.first, head.count):
            raise DamagedJournal(f"{piece.source} is damaged {at} bytes on: read again, or restore it from a backup")
        at = head.end
        yield head.first + head.count


@dataclass(frozen=True)
class SpanPartition(InputPartition):
    """What one task reads."""

    partition: int
    first: int
    end: int

    def __post_init__(self) -> None:
        """Spark's own field is not needed."""


class RangeReader(DataSourceReader):
    """A range of a stream as a table."""

    def __init__(self, source: StreamSource, options: Options) -> None:
        """Read from `startingOffsets` to before `endingOffsets`."""
        self.source = source
        self.starting = options.get("startingoffsets", "earliest")
        self.ending = options.get("endingoffsets", "latest")

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        start = self.source.offsets("startingOffsets", self.starting)
        end = self.source.offsets("endingOffsets", self.ending)
        return self.source.tasks(start, {number: max(last, start[number]) for number, last in end.items()})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task; without any Spark still asks once."""
        return _records(self.source, partition)


def _records(source: StreamSource, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, SpanPartition):
        yield from source.read(OffsetSpan(partition.partition, partition.first, partition.end))


@dataclass(frozen=True)
class StreamAdmission:
    """How much one batch takes."""

    starting: str
    records_max: int | None
    bytes_max: int | None
    records_min: int
    delay_s: float

    @classmethod
    def of(cls, options: Options) -> "StreamAdmission":
        """What options say."""
        for name in ("maxRecordsPerTrigger", "maxBytesPerTrigger", "minRecordsPerTrigger"):
            if name.lower() in options:
                need_spark(OFFSETS_GIVEN, f"the option {name}")
        return cls(
            options.get("startingoffsets", "latest"),
            whole(options, "maxRecordsPerTrigger"),
            whole(options, "maxBytesPerTrigger"),
            whole(options, "minRecordsPerTrigger") or 0,
            seconds(options, "maxTriggerDelay", 15 * 60),
        )


Offset = dict[str, int]


class OffsetReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query on a stream. The driver's one lives as long as the query; tasks have copies of it."""

    def __init__(self, source: StreamSource, admission: StreamAdmission) -> None:
        self.source = source
        self.admission = admission
        self._target: dict[int, int] | None = None
        self._waited_since_s: float | None = None

    def initialOffset(self) -> Offset:
        """Where a new query begins."""
        return _named(self.source.offsets("startingOffsets", self.admission.starting))

    def getDefaultReadLimit(self) -> ReadLimit:
        """What a batch takes; the other limits are applied with it."""
        admission = self.admission
        if admission.records_max is None and admission.bytes_max is None:
            return ReadAllAvailable()
        return ReadMaxRows(admission.records_max or WHOLE_MAX)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and nothing that comes later."""
        self._target = self._ends()

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """How far the next batch goes; Spark before 4.2 does not say where it begins."""
        if start is None:
            return self.reportLatestOffset()
        end = self._ends() if self._target is None else self._target
        begin = self._begin(_numbered(start), end)
        waiting = {number: max(0, last - begin[number]) for number, last in end.items()}
        if self._should_wait(sum(waiting.values())):
            return start
        if isinstance(limit, ReadAllAvailable) or not any(waiting.values()):
            return _named(end)
        if self.admission.records_max is not None:
            waiting = shared(waiting, self.admission.records_max)
        if self.admission.bytes_max is not None:
            spans = [OffsetSpan(number, begin[number], begin[number] + rows) for number, rows in waiting.items()]
            spans = [span for span in spans if span.rows]
            reached = self.source.place.reach(spans, max(1, self.admission.bytes_max // len(spans)))
            waiting |= {span.partition: min(span.rows, reached[span.partition] - span.first) for span in spans}
        return _named({number: begin[number] + rows for number, rows in waiting.items()})

    def _begin(self, start: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
        """Where the next batch begins; a stream that ends before that has lost records."""
        begin = {number: start.get(number, 0) for number in end}
        for number, first in begin.items():
            if first > end[number] and self._target is None:
                self.source.lost(f"partition {number} ends at offset {end[number]}, before {first}")
                begin[number] = 0
        return begin

    def _ends(self) -> dict[int, int]:
        return {number: each.end for number, each in self.source.place.ends().items()}

    def _should_wait(self, rows: int) -> bool:
        """Whether there is too little for a batch, and there is still time."""
        now_s = time.monotonic()
        if self._target is not None or rows >= self.admission.records_min or not rows:
            self._waited_since_s = None
            return False
        if self._waited_since_s is None:
            self._waited_since_s = now_s
        if now_s - self._waited_since_s < self.admission.delay_s:
            return True
        self._waited_since_s = None
        return False

    def reportLatestOffset(self) -> Offset:
        """The end of the stream: progress shows how far the query is behind it."""
        return _named(self._ends())

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The tasks of a batch."""
        begin, until = _numbered(start), _numbered(end)
        if VERSION < OFFSETS_GIVEN:  # latestOffset could not look
            begin |= self._begin(begin, until)
        return self.source.tasks(begin, until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        return _records(self.source, partition)

    def commit(self, end: Offset) -> None:
        """Nothing: the checkpoint is the only memory."""

    def stop(self) -> None:
        """Nothing is kept open."""


def _named(offsets: Mapping[int, int]) -> Offset:
    """Offsets as Spark keeps them."""
    return {str(number): offset for number, offset in sorted(offsets.items())}


def _numbered(offset: Offset) -> dict[int, int]:
    """The reverse of _named."""
    return {int(number): each for number, each in offset.items()}
