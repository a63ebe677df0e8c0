"""`spark.read.format("leveret")`: the journal of a broker and its archive as tables; streams and queues: see live.py.

spark.read.format("leveret").option("table", "messages").option("queue", "orders").load("data")

path                  a data directory, also of a running broker; an archive of segments; or an archive of tables
archive               the archive that belongs to the data directory `path`, of segments or Parquet
table                 `events` (default) or `messages`; of an archive of tables also `records`, those of streams
columns               the columns to read, separated by commas: Spark does not say which ones a query needs
queue                 only these queues, separated by commas
since, until          only what happened at or after, and before, these times (ISO 8601; UTC unless it says so)
partitionBytes        bytes of a segment that one task reads
encryption_key_file,  where the keys of encrypted segments are, on every machine that reads
encryption_key_env
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from leveret.core.errors import InvalidArgument
from leveret.spark.archive_state import is_archive, refuse_former
from leveret.spark.columns import chosen, spark_schema
from leveret.spark.directories import archive_place, is_stored
from leveret.spark.insert import batch_writer
from leveret.spark.live import live_reader, live_source, live_stream_reader
from leveret.spark.options import check_names, moment_ms, whole
from leveret.spark.parquet import FilesPartition, ParquetReader
from leveret.spark.scan import ARCHIVED_TABLES, FOREVER_MS, TABLES, JournalScan
from leveret.spark.segments import Slice, check_directories
from leveret.spark.sink import BatchWriter, StreamWriter
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
        scan = self.scan()
        if is_archive(scan.directories[0]):
            return ParquetReader(scan)
        return WholeReader(scan) if is_archive(scan.directories[-1]) else SegmentsReader(scan)

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
        check_names(self.options, "history")
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
            since_ms=moment_ms("since", self.options["since"]) if "since" in self.options else 0,
            until_ms=moment_ms("until", self.options["until"]) if "until" in self.options else FOREVER_MS,
            slice_bytes=whole(self.options, "partitionBytes", PARTITION_BYTES, PARTITION_BYTES_MIN) or PARTITION_BYTES,
            keys=keys,
        )
