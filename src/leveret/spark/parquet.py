"""Reading a Parquet archive: only the files that its manifest names, and of those only what can hold wanted rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret.core.errors import DamagedJournal
from leveret.spark.columns import TIMESTAMP, US_PER_MS, spark_schema
from leveret.spark.directories import pattern_of
from leveret.spark.manifest import REMEDY, File, read_manifest
from leveret.spark.scan import ARCHIVED_TABLES, BATCH_ROWS, FOREVER_MS, JournalScan

TIME_COLUMNS = {"events": "at", "messages": "enqueued_at", "records": "enqueued_at"}
NAME_COLUMNS = {"events": "queue", "messages": "queue", "records": "stream"}
FIRST_DATE, LAST_DATE = "", "9999-12-31"


@dataclass(frozen=True)
class FilesPartition(InputPartition):
    """What one task reads."""

    files: tuple[File, ...]

    def __post_init__(self) -> None:
        """Spark's own field is not needed."""


class ParquetReader(DataSourceReader):
    """Plans files of an archive; reads some of them in each task."""

    def __init__(self, scan: JournalScan) -> None:
        self.scan = scan

    def partitions(self) -> list[InputPartition]:
        """The files that may hold wanted rows, small ones together."""
        groups: list[list[File]] = []
        room = 0
        for file in wanted_files(self.scan):
            if room < file.bytes:
                groups.append([])
                room = self.scan.slice_bytes
            groups[-1].append(file)
            room -= file.bytes
        return [FilesPartition(tuple(group)) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files; without any Spark still asks once."""
        if isinstance(partition, FilesPartition):
            for file in partition.files:
                yield from self._batches(file)

    def _batches(self, file: File) -> Iterator[pa.RecordBatch]:
        """The wanted rows of one file, with exactly the announced types."""
        table = self.scan.chosen
        needed = list({*table, NAME_COLUMNS[self.scan.table], TIME_COLUMNS[self.scan.table]})
        schema = pa.schema([(name, column.arrow) for name, column in table.items()])
        path = f"{self.scan.directories[0]}/{file.path}"
        with as_damage(path), pq.ParquetFile(path) as opened:
            for batch in opened.iter_batches(BATCH_ROWS, columns=needed):
                rows = batch.filter(mask) if (mask := self._mask(batch)) is not None else batch
                if rows.num_rows:
                    arrays = [rows.column(name).cast(column.arrow) for name, column in table.items()]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows are wanted; None: all of them."""
        scan, masks = self.scan, []
        times = batch.column(TIME_COLUMNS[scan.table])
        if scan.queues is not None:
            names = batch.column(NAME_COLUMNS[scan.table])
            masks.append(pc.is_in(names, value_set=pa.array(sorted(scan.queues), pa.string())))
        if scan.since_ms > 0:
            masks.append(pc.greater_equal(times, _moment(scan.since_ms)))
        if scan.until_ms < FOREVER_MS:
            masks.append(pc.less(times, _moment(scan.until_ms)))
        whole = None
        for mask in masks:
            whole = mask if whole is None else pc.and_(whole, mask)
        return whole


@contextmanager
def as_damage(path: str) -> Iterator[None]:
    """Name the file that Arrow could not read; how far it came is for Arrow to say."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise DamagedJournal(f"{path} is damaged ({error}): {REMEDY}") from error


def wanted_files(scan: JournalScan) -> list[File]:
    """The files of an archive that may hold rows of a scan."""
    since = FIRST_DATE if scan.since_ms <= 0 else _date(scan.since_ms)
    until = LAST_DATE if scan.until_ms == FOREVER_MS else _date(scan.until_ms)
    files = read_manifest(scan.directories[0]).of(scan.table)
    return [file for file in files if file.may_hold(scan.queues, since, until)]


def archived(spark: SparkSession, scan: JournalScan) -> DataFrame:
    """A table of an archive by Spark's own reader of Parquet, which leaves out columns that a query does not need."""
    schema = spark_schema(ARCHIVED_TABLES[scan.table])
    paths = [pattern_of(f"{scan.directories[0]}/{file.path}") for file in wanted_files(scan)]
    rows = spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)
    if scan.queues is not None:
        rows = rows.where(rows[NAME_COLUMNS[scan.table]].isin(sorted(scan.queues)))
    times = rows[TIME_COLUMNS[scan.table]]
    if scan.since_ms > 0:
        rows = rows.where(times >= _datetime(scan.since_ms))
    if scan.until_ms < FOREVER_MS:
        rows = rows.where(times < _datetime(scan.until_ms))
    return rows.select(*scan.chosen)


def _moment(ms: int) -> pa.Scalar:
    """A time for Arrow."""
    return pa.scalar(ms * US_PER_MS, pa.int64()).cast(TIMESTAMP)


def _datetime(ms: int) -> datetime:
    """A time for Spark."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def _date(ms: int) -> str:
    """The day of a time, in UTC."""
    return _datetime(ms).date().isoformat()
