"""`spark.read.format("leveret")`: the journal of a broker and its archive as tables; streams and queues: see live.py.

spark.read.format("leveret").option("table", "messages").option("queue", "orders").load("data")

path                  a data directory, also of a running broker; an archive of segments; or an archive of tables
archive               the archive that belongs to the data directory `path`, of segments or Parquet
table                 `events` (default) or `messages`; of an archive of tables also `records`, those of streams
columns               the columns to read, separated by commas: Spark does not say which ones a query needs
queue                 only these queues, separated by commas
since, until          only what happened at or after, and before, these times (ISO 8601; UTC unless it says so)
pushdown              `true`: filters of the query on queue and time also narrow what is read; Spark refuses that
                      unless spark.sql.python.filterPushdown.enabled is set, as session.py does
partitionBytes        bytes of a segment that one task reads
encryption_key_file,  where the keys of encrypted segments are, on every machine that reads
encryption_key_env
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from leveret.core.errors import InvalidArgument
from leveret.spark.archive_state import is_archive, refuse_former
from leveret.spark.columns import TIME_COLUMNS, chosen, spark_schema
from leveret.spark.directories import archive_place, is_stored
from leveret.spark.insert import batch_writer
from leveret.spark.live import live_reader, live_source, live_stream_reader
from leveret.spark.parquet import FilesPartition, ParquetReader
from leveret.spark.scan import ARCHIVED_TABLES, FOREVER_MS, TABLES, JournalScan
from leveret.spark.segments import Slice, check_directories
from leveret.spark.sink import BatchWriter, StreamWriter
from leveret.spark.spark_api import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
from leveret.spark.target import stream_target
from leveret.storage.encryption import load_keys


@dataclass(frozen=True)
class SegmentPartition(InputPartition):
    """What one task reads."""

    slice: Slice

    def __post_init__(self) -> None:
        """Spark's own field is not needed."""


class SegmentsReader(DataSourceReader):
    """Plans slices of segments; reads each in a task."""

    def __init__(self, scan: JournalScan) -> None:
        self.scan = scan

    def partitions(self) -> list[InputPartition]:
        """The slices that may hold something wanted; what is learned here goes with them."""
        return [SegmentPartition(piece) for piece in self.scan.slices()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a slice; without any slice Spark still asks once."""
        if isinstance(partition, SegmentPartition):
            yield from self.scan.batches(partition.slice)


class WholeReader(DataSourceReader):
    """Plans files of the archive and slices of segments; reads either in a task."""

    def __init__(self, scan: JournalScan) -> None:
        """Read what a scan says, whose directories are the one of the broker and the archive."""
        self.scan = scan

    @property
    def _past(self) -> ParquetReader:
        return ParquetReader(replace(self.scan, directories=self.scan.directories[1:]))

    @property
    def _news(self) -> SegmentsReader:
        data, archive = self.scan.directories
        return SegmentsReader(replace(self.scan, directories=(data,), beyond=archive, moved=False))

    def partitions(self) -> list[InputPartition]:
        """The files of the archive, then the slices."""
        return [*self._past.partitions(), *self._news.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files, or of a slice."""
        return (self._past if isinstance(partition, FilesPartition) else self._news).read(partition)


PARTITION_BYTES = 32 << 20
PARTITION_BYTES_MIN = 64 << 10
"""Less than a task costs to start."""


class LeveretSource(DataSource):
    """The format that Spark knows as `leveret`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "leveret"

    def schema(self) -> str:
        """The columns that are asked for."""
        live = live_source(self.options)
        return spark_schema(self.scan().chosen if live is None else live.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What plans and reads."""
        live = live_source(self.options)
        if live is not None:
            return live_reader(live, self.options)
        scan, pushdown = self.scan(), self._flag("pushdown")
        if is_archive(scan.directories[0]):
            return PushdownParquetReader(scan) if pushdown else ParquetReader(scan)
        if is_archive(scan.directories[-1]):
            return PushdownWholeReader(scan) if pushdown else WholeReader(scan)
        return PushdownReader(scan) if pushdown else SegmentsReader(scan)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What goes on from offset to offset."""
        live = live_source(self.options)
        if live is None:
            raise InvalidArgument("the journal is read as a table: name a stream, or a queue of the server at url")
        return live_stream_reader(live, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """What stages and commits a DataFrame."""
        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """What stages and commits the batches of a streaming query."""
        return StreamWriter(stream_target(self.options, schema))

    def scan(self) -> JournalScan:
        """The options, checked."""
        path = self.options.get("path")
        if path is None:
            raise InvalidArgument("no directory was given: name the data directory or archive in load(...)")
        path, archive = archive_place("path", path), self.options.get("archive")
        directories = (path,) if archive is None else (path, archive_place("archive", archive))
        check_directories(*(place for place in directories if not is_stored(place)))
        refuse_former(directories[-1])
        table = self.options.get("table", "events")
        tables = ARCHIVED_TABLES if is_archive(path) else TABLES
        if table not in tables:
            raise InvalidArgument(f"table={table!r}: give one of {', '.join(tables)}")
        queues = self.options.get("queue")
        keys = self.options.get("encryption_key_file"), self.options.get("encryption_key_env")
        load_keys(*keys)  # a missing key is told before tasks are started
        chosen(tables[table], self.options.get("columns"))
        return JournalScan(
            directories=directories,
            table=table,
            columns=self.options.get("columns"),
            queues=None if queues is None else frozenset(name.strip() for name in queues.split(",")),
            since_ms=_moment("since", self.options.get("since"), 0),
            until_ms=_moment("until", self.options.get("until"), FOREVER_MS),
            slice_bytes=_bytes("partitionBytes", self.options.get("partitionbytes")),
            keys=keys,
        )

    def _flag(self, name: str) -> bool:
        """An option that is true or false."""
        value = self.options.get(name, "false").lower()
        if value not in ("true", "false"):
            raise InvalidArgument(f"{name}={value!r}: give true or false")
        return value == "true"


class Pushdown:
    """Narrows the scan by the filters of the query. Spark applies all of them again, so that this may be coarse."""

    scan: JournalScan

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use what is known about queue and time."""
        for each in filters:
            self.scan = self._narrowed(each)
            yield each

    def _narrowed(self, each: Filter) -> JournalScan:
        """The scan with one filter more."""
        if isinstance(each, (EqualTo, In)) and each.attribute == ("queue",):
            wanted = frozenset(each.value if isinstance(each, In) else (each.value,))
            return replace(self.scan, queues=wanted if self.scan.queues is None else self.scan.queues & wanted)
        if getattr(each, "attribute", None) == (TIME_COLUMNS[self.scan.table],):
            if isinstance(each, (GreaterThan, GreaterThanOrEqual)):
                return replace(self.scan, since_ms=max(self.scan.since_ms, _ms(each.value)))
            if isinstance(each, (LessThan, LessThanOrEqual)):
                return replace(self.scan, until_ms=min(self.scan.until_ms, _ms(each.value) + 1))
        return self.scan


class PushdownReader(Pushdown, SegmentsReader):
    """Reads segments that filters of the query narrow."""


class PushdownParquetReader(Pushdown, ParquetReader):
    """Reads files of an archive that filters of the query narrow."""


class PushdownWholeReader(Pushdown, WholeReader):
    """Reads both, narrowed by filters of the query."""


def _moment(name: str, text: str | None, default_ms: int) -> int:
    """A time in an option."""
    if text is None:
        return default_ms
    try:
        return _ms(datetime.fromisoformat(text))
    except ValueError:
        raise InvalidArgument(f"{name}={text!r}: give a time such as 2026-01-31T12:00:00") from None


def _ms(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def _bytes(name: str, text: str | None) -> int:
    """A number of bytes in an option."""
    if text is None:
        return PARTITION_BYTES
    if not text.isdigit() or int(text) < PARTITION_BYTES_MIN:
        raise InvalidArgument(f"{name}={text!r}: give a number of bytes, at least {PARTITION_BYTES_MIN}")
    return int(text)
