"""Reading an archive: only files of its newest snapshot, and of those only row groups that can hold wanted rows."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret.core.errors import DamagedJournal, PreconditionFailed
from leveret.spark.archive_files import archive_files
from leveret.spark.archive_state import REMEDY
from leveret.spark.columns import NAME_COLUMNS, TIME_COLUMNS, TIMESTAMP, US_PER_MS, spark_schema
from leveret.spark.directories import is_stored, pattern_of
from leveret.spark.scan import ARCHIVED_TABLES, BATCH_ROWS, FOREVER_MS, JournalScan
from leveret.spark.tasks import scattered

JOURNAL_ROW_BYTES, JOURNAL_SHARE = 128, 4
"""What a row is in a segment at least, and a byte of an archive: tasks of both are of one size."""


@dataclass(frozen=True)
class File:
    """A file of an archive, or some row groups of it."""

    name: str
    bytes: int
    """What it was in segments, about."""
    groups: tuple[int, ...] | None = None
    """None: all of them."""


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
        """The files that may hold wanted rows: large ones cut between row groups, small ones together."""
        groups: list[list[File]] = []
        room = 0
        for file in wanted_files(self.scan, self.scan.slice_bytes):
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
        table, files = self.scan.chosen, archive_files(self.scan.directories[0])
        schema = pa.schema([(name, column.arrow) for name, column in table.items()])
        place = f"{files.root}/{file.name}"
        with as_damage(place), pq.ParquetFile(files.open(file.name) if is_stored(place) else place) as opened:
            there = set(opened.schema_arrow.names)
            needed = list({*table, NAME_COLUMNS[self.scan.table], TIME_COLUMNS[self.scan.table]} & there)
            groups = self._groups(opened.metadata, file.groups)
            for batch in opened.iter_batches(BATCH_ROWS, row_groups=groups, columns=needed):
                rows = batch.filter(mask) if (mask := self._mask(batch)) is not None else batch
                if rows.num_rows:
                    arrays = [
                        rows.column(name).cast(column.arrow) if name in there else pa.nulls(rows.num_rows, column.arrow)
                        for name, column in table.items()
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _groups(self, facts: Any, some: tuple[int, ...] | None) -> list[int]:
        """The row groups whose queues and times may be wanted."""
        scan, found = self.scan, range(facts.num_row_groups) if some is None else some
        at = {facts.schema.column(number).path: number for number in range(facts.num_columns)}
        name, time = at[NAME_COLUMNS[scan.table]], at[TIME_COLUMNS[scan.table]]

        def may_hold(group: int) -> bool:
            names, times = (facts.row_group(group).column(column).statistics for column in (name, time))
            known = scan.queues is not None and names is not None and names.has_min_max and names.null_count == 0
            if known and not any(names.min <= queue <= names.max for queue in scan.queues or ()):
                return False
            if times is None or not times.has_min_max:
                return True
            late_enough = scan.since_ms <= 0 or times.max >= _datetime(scan.since_ms)
            return late_enough and (scan.until_ms == FOREVER_MS or bool(times.min < _datetime(scan.until_ms)))

        return [group for group in found if may_hold(group)]

    def _mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows are wanted; None: all of them."""
        scan, masks = self.scan, []
        times = batch.column(TIME_COLUMNS[scan.table])
        if scan.queues is not None:
            names = batch.column(NAME_COLUMNS[scan.table])
            wanted = pc.is_in(names, value_set=pa.array(sorted(scan.queues), pa.string()))
            masks.append(pc.or_(wanted, pc.is_null(names)))
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


def wanted_files(scan: JournalScan, size: int | None = None) -> list[File]:
    """The files of an archive that may hold rows of a scan, cut into pieces of about so many bytes."""
    # Not above: tasks read files without a catalog, which takes half a second to import.
    from leveret.spark.iceberg import IcebergArchive, matching

    archive = IcebergArchive(scan.directories[0])
    since_ms = scan.since_ms if scan.since_ms > 0 else None
    wanted = matching(scan.table, scan.queues, since_ms, scan.until_ms if scan.until_ms < FOREVER_MS else None)
    found: list[File] = []
    for task in archive.table(scan.table).scan(row_filter=wanted).plan_files():
        if task.delete_files:
            raise PreconditionFailed(
                f"{task.file.file_path} has deleted rows: let the program that deleted them rewrite its files"
            )
        found += _pieces(archive.catalog.io.name(task.file.file_path), task.file, size)
    return found


def _pieces(name: str, file: Any, size: int | None) -> Iterator[File]:
    """A file, cut between its row groups."""
    weight = max(file.record_count * JOURNAL_ROW_BYTES, file.file_size_in_bytes * JOURNAL_SHARE)
    count = len(file.split_offsets or ())
    if size is None or weight <= size or count < 2:
        yield File(name, weight)
        return
    pieces = min(count, -(-weight // size))
    for first, end in pairwise(count * number // pieces for number in range(pieces + 1)):
        yield File(name, weight * (end - first) // count, tuple(range(first, end)))


def archived(spark: SparkSession, scan: JournalScan) -> DataFrame:
    """A table of an archive by Spark's own reader, which leaves out columns that a query does not need."""
    rows = frame_of(spark, scan, wanted_files(scan))
    if scan.queues is not None:
        rows = rows.where(rows[NAME_COLUMNS[scan.table]].isin(sorted(scan.queues)))
    times = rows[TIME_COLUMNS[scan.table]]
    if scan.since_ms > 0:
        rows = rows.where(times >= _datetime(scan.since_ms))
    if scan.until_ms < FOREVER_MS:
        rows = rows.where(times < _datetime(scan.until_ms))
    return rows.select(*scan.chosen)


def frame_of(spark: SparkSession, scan: JournalScan, files: list[File]) -> DataFrame:
    """All rows of some files: Spark itself reads those of a directory, tasks those of an object store."""
    schema, root = spark_schema(ARCHIVED_TABLES[scan.table]), scan.directories[0]
    if not files:
        return spark.createDataFrame([], schema)
    if not is_stored(root):
        return spark.read.schema(schema).parquet(*(pattern_of(os.path.join(root, file.name)) for file in files))
    reader = ParquetReader(scan)
    return scattered(spark, files, schema, lambda file: reader.read(FilesPartition((file,))))


def _moment(ms: int) -> pa.Scalar:
    """A time for Arrow."""
    return pa.scalar(ms * US_PER_MS, pa.int64()).cast(TIMESTAMP)


def _datetime(ms: int) -> datetime:
    """A time for Spark."""
    return datetime.fromtimestamp(ms / 1000, UTC)
