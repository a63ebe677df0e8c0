"""Streams for Spark: a range of offsets as a table, or a streaming query that goes on from offset to offset.

Reading a range gives the same each time, so that with the checkpoint of Spark every record counts once. Where the
records come from is a `StreamLocation`: a server, or the files of a data directory.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound
from leveret.spark.columns import Table, chosen
from leveret.spark.messages import with_headers
from leveret.spark.options import (
    WHOLE_MAX,
    Options,
    by_partition,
    check_names,
    flag,
    moment_ms,
    required,
    whole,
)
from leveret.spark.records import STREAM, stream_batch, texts_of
from leveret.spark.spans import OffsetSpan, PartitionKey, split
from leveret.storage.stream.blocks import BlockColumns, block_at

BATCH_BYTES = 32 << 20
"""When an Arrow batch is full, with however few rows."""
BATCH_ROWS = 65_536
STREAMS_MAX = 1_000  # of one query: each is asked for its offsets before each batch
LATEST, EARLIEST = -1, -2  # as in Kafka


class Ends(NamedTuple):
    """What there is of a partition: from the oldest record to before the next one."""

    first: int
    end: int


class Survey(NamedTuple):
    """What there is of a stream; one that was deleted and made anew has another id. 0: not known."""

    id: int
    ends: dict[int, Ends]


class BlockGroup(NamedTuple):
    """Some blocks, and where they come from, for errors."""

    data: bytes
    source: str


class StreamLocation(Protocol):
    """Where the records of a stream are."""

    def survey(self) -> Survey:
        """What there is of each partition."""

    def at(self, timestamp_ms: int) -> dict[int, int]:
        """The offset of the first record of a time or later, in each partition."""

    def reach(self, spans: list[OffsetSpan], size: int) -> dict[int, int]:
        """The offset that about so many bytes of each span reach, by the number of the partition."""

    def piece(self, span: OffsetSpan) -> BlockGroup:
        """The blocks with the first records of a span."""

    def note(self, group: str, offsets: dict[int, int]) -> None:
        """Tell a consumer group how far a query has read."""


class Broker(Protocol):
    """Where streams are: a server, or a data directory; fit to be sent to another process."""

    def stream(self, name: str) -> StreamLocation:
        """The place of one stream."""

    def streams(self) -> list[str]:
        """The names of all streams."""


@dataclass(frozen=True)
class Choice:
    """Which streams, and which of their partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: dict[str, tuple[int, ...]] | None = None

    @classmethod
    def of(cls, options: Options) -> "Choice":
        """What options say: one of four."""
        given = [name for name in ("stream", "streams", "streamPattern", "assign") if name.lower() in options]
        if len(given) != 1:
            raise InvalidArgument(f"{' and '.join(given)}: give one of stream, streams, streamPattern and assign")
        text = required(options, given[0])
        if given[0] == "streamPattern":
            try:
                re.compile(text)
            except re.error as error:
                raise InvalidArgument(f"streamPattern={text!r}: {error}; give a regular expression") from None
            return cls(pattern=text)
        if given[0] == "assign":
            return cls._assigned(text)
        names = (text,) if given[0] == "stream" else tuple(name.strip() for name in text.split(",") if name.strip())
        if not names or len(set(names)) < len(names) or len(names) > STREAMS_MAX:
            raise InvalidArgument(f"streams={text!r}: name each once, at most {STREAMS_MAX}")
        return cls(names)

    @classmethod
    def _assigned(cls, text: str) -> "Choice":
        try:
            found = {str(name): tuple(sorted(map(int, numbers))) for name, numbers in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError):
            found = {}
        if not found or len(found) > STREAMS_MAX:
            raise InvalidArgument(f'assign={text!r}: give partitions of each stream, {{"clicks": [0, 1], ...}}')
        return cls(tuple(found), partitions=found)


Surveys = dict[str, Survey]


class Position(NamedTuple):
    """Offsets of partitions, and the ids of their streams."""

    ids: dict[str, int]
    at: dict[PartitionKey, int]

    @classmethod
    def end_of(cls, surveys: Surveys) -> "Position":
        """The end of all that is there."""
        return cls({name: each.id for name, each in surveys.items()}, _each(surveys, lambda ends: ends.end))


def _each(surveys: Surveys, value: Callable[[Ends], int]) -> dict[PartitionKey, int]:
    """A number of each partition."""
    return {
        PartitionKey(name, number): value(ends) for name, each in surveys.items() for number, ends in each.ends.items()
    }


@dataclass(frozen=True)
class StreamSource:
    """What is read of streams; fit to be sent to another process."""

    broker: Broker
    choice: Choice
    columns: str | None
    headers: str
    fail_on_data_loss: bool
    tasks_min: int | None
    task_rows_max: int | None

    @classmethod
    def of(cls, broker: Broker, options: Options) -> "StreamSource":
        """What options say."""
        check_names(options, "stream")
        source = cls(
            broker,
            Choice.of(options),
            options.get("columns"),
            options.get("includeheaders", "true"),
            flag(options, "failOnDataLoss", True),
            whole(options, "minPartitions"),
            whole(options, "maxRecordsPerPartition"),
        )
        chosen(source.table, None)  # what is wrong with columns is told here
        return source

    @property
    def table(self) -> Table:
        """The columns that are read."""
        return chosen(with_headers(STREAM, self.headers), self.columns)

    def surveys(self) -> Surveys:
        """What there is of each stream, in the order of their names; of a pattern, those that are there now."""
        names, assigned = self.choice.names, self.choice.partitions
        if self.choice.pattern is not None:
            names = tuple(name for name in self.broker.streams() if re.fullmatch(self.choice.pattern, name))
            if len(names) > STREAMS_MAX:
                raise InvalidArgument(
                    f"streamPattern={self.choice.pattern!r}: a query reads at most {STREAMS_MAX} streams"
                )
        found = {name: self.broker.stream(name).survey() for name in sorted(names)}
        for name, numbers in (assigned or {}).items():
            if missing := set(numbers) - set(found[name].ends):
                raise InvalidArgument(f"assign: stream {name!r} has no partition {min(missing)}")
            found[name] = found[name]._replace(ends={number: found[name].ends[number] for number in numbers})
        return found

    def offsets(self, options: Options, name: str, default: str) -> Position:
        """The offsets that an option asks for, or its twin by time."""
        twin = f"{name}ByTimestamp"
        by_time = twin.lower() in options
        if by_time and name.lower() in options:
            raise InvalidArgument(f"{name} and {twin}: give one of them")
        name = twin if by_time else name
        text, surveys = options.get(name.lower(), default), self.surveys()
        end = Position.end_of(surveys)
        if not text.lstrip().startswith("{"):
            wanted = {stream: {"default": text} for stream in surveys}
        else:
            wanted = by_partition(name, text, surveys)
        for stream, spots in wanted.items():
            known = {str(number) for number in surveys[stream].ends} if stream in surveys else set()
            if unknown := spots.keys() - known - {"default"}:
                raise InvalidArgument(f"{name}: stream {stream!r} has no partition {min(unknown)}, or is not read")
        at_time = cache(lambda stream, timestamp_ms: self.broker.stream(stream).at(timestamp_ms))
        for key in end.at:
            spots = wanted.get(key.stream, {})
            spot: Any = spots.get(str(key.number), spots.get("default", default))
            if by_time and type(spot) is int and spot >= 0:
                end.at[key] = at_time(key.stream, spot)[key.number]
            elif spot in ("earliest", EARLIEST):
                end.at[key] = surveys[key.stream].ends[key.number].first
            elif type(spot) is int and 0 <= spot <= WHOLE_MAX:
                end.at[key] = spot
            elif isinstance(spot, str) and spot != "latest":
                end.at[key] = at_time(key.stream, moment_ms(name, spot))[key.number]
            elif spot not in ("latest", LATEST):
                raise InvalidArgument(
                    f"{name}: {spot!r} of partition {key.number} of {key.stream!r}: give earliest, latest, a time, an "
                    f"offset, {LATEST} for the end or {EARLIEST} for the begin"
                )
        return end

    def tasks(self, start: Position, end: Position) -> list[InputPartition]:
        """The range between offsets, cut into tasks; what is gone of it is a loss."""
        surveys, spans = self.surveys(), []
        for key, last in end.at.items():
            there = surveys[key.stream].ends.get(key.number, Ends(0, 0)) if key.stream in surveys else Ends(0, 0)
            first = start.at.get(key, there.first)
            if differ(start.ids, end.ids, key.stream):
                first = there.first
            if first < last and key.stream in surveys and differ(end.ids, surveys, key.stream):
                self.lost(f"stream {key.stream!r} was deleted and made anew after this batch was planned")
                continue
            if first < last and not there.first <= first <= last <= there.end:
                self.lost(
                    f"partition {key.number} of stream {key.stream!r} has offsets {there.first} to {there.end}, not "
                    f"{first} to {last}"
                )
            spans.append(OffsetSpan(key, max(first, there.first), min(last, there.end)))
        return [
            SpanPartition(*span.partition, span.first, span.end)
            for span in split(spans, self.tasks_min, self.task_rows_max)
        ]

    def lost(self, what: str) -> None:
        """Records are not there that should be: refuse to go on, unless that was allowed."""
        if self.fail_on_data_loss:
            raise NotFound(
                f"{what}; retention has removed records, or the stream was deleted or made anew. Set the option "
                "failOnDataLoss to false to go on with what is there"
            )

    def read(self, span: OffsetSpan) -> Iterator[pa.RecordBatch]:
        """The records of a span."""
        place, columns = (
            self.broker.stream(span.partition.stream),
            BlockColumns(span.first, span.end, texts_of(self.table)),
        )
        while span.first < span.end:
            try:
                piece = place.piece(span)
            except NotFound as error:
                self.lost(str(error))
                oldest = place.survey().ends[span.partition.number].first
                span = span._replace(first=max(span.first + 1, oldest))
                continue
            for first in _taken(columns, piece):
                span = span._replace(first=first)
                if columns.rows >= BATCH_ROWS or columns.size_bytes >= BATCH_BYTES:
                    yield self._batch(span.partition, columns)
        if columns.rows:
            yield self._batch(span.partition, columns)

    def _batch(self, key: PartitionKey, columns: BlockColumns) -> pa.RecordBatch:
        rows = columns.rows
        return stream_batch(self.table, *key, rows, columns.take())


def differ(ids: Mapping[str, int], others: Mapping[str, int] | Surveys, name: str) -> bool:
    """Whether a stream has one id here and another there, as far as both are known."""
    one, other = ids.get(name, 0), others.get(name, 0)
    other = other.id if isinstance(other, Survey) else other
    return one != other and 0 not in (one, other)


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

    stream: str
    partition: int
    first: int
    end: int

    def __post_init__(self) -> None:
        """Spark's own field is not needed."""


class RangeReader(DataSourceReader):
    """A range of streams as a table."""

    def __init__(self, source: StreamSource, options: Options) -> None:
        """Read from `startingOffsets` to before `endingOffsets`."""
        self.source = source
        self._options = dict(options)

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        start = self.source.offsets(self._options, "startingOffsets", "earliest")
        end = self.source.offsets(self._options, "endingOffsets", "latest")
        last = {key: max(last, start.at.get(key, 0)) for key, last in end.at.items()}
        return self.source.tasks(start, end._replace(at=last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task; without any Spark still asks once."""
        return read_task(self.source, partition)


def read_task(source: StreamSource, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The records of one task; without any Spark still asks once."""
    if isinstance(partition, SpanPartition):
        key = PartitionKey(partition.stream, partition.partition)
        yield from source.read(OffsetSpan(key, partition.first, partition.end))
