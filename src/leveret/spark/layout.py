"""How tables lie in an archive: by day, and in each file by queue and time, so that a reader leaves out row groups.

Tasks write where they run; the driver looks at the end of each file and counts its rows before it commits them. On
machines with disks of their own the files are not where the driver looks, and nothing is committed or removed.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from leveret.core.errors import PreconditionFailed
from leveret.spark.archive_files import ArchiveFiles
from leveret.spark.archive_state import NOTES
from leveret.spark.columns import NAME_COLUMNS, NUMBER_COLUMNS, TIME_COLUMNS
from leveret.spark.tasks import Batches, Scattered, scattered

if TYPE_CHECKING:  # tasks write files without a catalog, which takes half a second to import
    from pyiceberg.manifest import DataFile

    from leveret.spark.iceberg import IcebergArchive

RUN_BYTES = 64 << 20
"""Rows that a task sorts at once."""
FILE_BYTES = 128 << 20
GROUP_ROWS = 65_536
"""Rows that a reader reads or leaves out."""
REPEATING = ["event", "vhost", "queue", "reason", "consumer", "exchange", "content_type", "stream", "app_id", "type"]
"""Columns whose values are worth a dictionary."""
_WRITTEN = pa.schema([("path", pa.string()), ("rows", pa.int64())])


@dataclass(frozen=True)
class FileWriter:
    """Writes the rows of one task, in sorted runs, a file for each day."""

    files: ArchiveFiles
    table: str
    schema: pa.Schema
    """With the numbers of the columns."""

    def write(self, batches: Batches) -> list[tuple[str, int]]:
        """Write rows; give the names of the files and how many rows went into each."""
        days: dict[str, DayFile] = {}
        found = []
        for run in self._runs(batches):
            for day, rows in self._by_day(run):
                file = days.setdefault(day, DayFile(self.schema))
                file.writer.write_table(rows, row_group_size=GROUP_ROWS)
                file.rows += rows.num_rows
                if file.buffer.tell() >= FILE_BYTES:
                    found.append(self._put(day, days.pop(day)))
        return [*found, *(self._put(day, file) for day, file in days.items())]

    def _put(self, day: str, file: DayFile) -> tuple[str, int]:
        file.writer.close()
        name = f"{self.table}/data/{TIME_COLUMNS[self.table]}_day={day}/{uuid.uuid4().hex}.parquet"
        self.files.replace(name, file.buffer.getvalue())
        return name, file.rows

    def _runs(self, batches: Batches) -> Iterator[pa.Table]:
        """As many rows at a time as are sorted at once."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(self._fitted(batch))
            size += batch.nbytes
            if size >= RUN_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, size = [], 0
        if sum(each.num_rows for each in waiting):
            yield pa.Table.from_batches(waiting)

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the columns of the table; null for those that it has not."""
        there = set(batch.schema.names)
        arrays = [
            batch.column(each.name).cast(each.type) if each.name in there else pa.nulls(batch.num_rows, each.type)
            for each in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _by_day(self, run: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """The rows of each day, by queue, time and number."""
        time, name, number = (names[self.table] for names in (TIME_COLUMNS, NAME_COLUMNS, NUMBER_COLUMNS))
        run = run.combine_chunks()
        days = run.column(time).cast(pa.date32())
        ranks = _ranks(run.column(name))
        keys = pa.table({"day": days, "name": ranks, "time": run.column(time), "number": run.column(number)})
        order = pc.sort_indices(keys, sort_keys=[(key, "ascending") for key in keys.column_names])
        ordered, start = run.take(order), 0
        for count in pc.value_counts(days.take(order)).to_pylist():
            day = count["values"]
            yield "null" if day is None else day.isoformat(), ordered.slice(start, count["counts"])
            start += count["counts"]


class DayFile:
    """A file that a task is writing, in memory until it is whole."""

    def __init__(self, schema: pa.Schema) -> None:
        self.buffer, self.rows = io.BytesIO(), 0
        self.writer = pq.ParquetWriter(
            self.buffer,
            schema,
            compression="zstd",
            use_dictionary=[name for name in REPEATING if name in schema.names],
            store_schema=False,
        )


def _ranks(column: pa.ChunkedArray) -> pa.Array:
    """Numbers in the order of texts: these are compared more quickly."""
    coded = column.combine_chunks().dictionary_encode()
    return pc.sort_indices(pc.sort_indices(coded.dictionary)).take(coded.indices)


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files of a task, and how many rows went into each."""

    files: list[tuple[str, int]]


class ArchiveWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame; notes for the driver what the tasks wrote whose work counts."""

    def __init__(self, writer: FileWriter, note: str) -> None:
        self._writer, self._note = writer, note

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        return WrittenFiles(self._writer.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        files = [file for each in messages if isinstance(each, WrittenFiles) for file in each.files]
        self._writer.files.create(self._note, json.dumps(files).encode())


class ArchiveSink(Scattered):
    """Where a DataFrame is written to files of an archive."""

    sink: ArchiveWriter

    def writer(self, schema: StructType, overwrite: bool) -> ArchiveWriter:
        return self.sink


def written(rows: DataFrame, archive: IcebergArchive, table: str) -> list[DataFile]:
    """Write the rows of each task of a DataFrame; give the files, which are committed later."""
    note = f"{NOTES}/{uuid.uuid4().hex}.json"
    writer = FileWriter(archive.files, table, archive.schema(table))
    made: type[Scattered] = type("Sink", (ArchiveSink,), {"columns": "", "sink": ArchiveWriter(writer, note)})
    rows.sparkSession.dataSource.register(made)
    rows.write.format(made.name()).mode("append").save()
    with archive.files.open(note) as file:
        told = [(str(name), int(count)) for name, count in json.loads(file.read())]
    archive.files.delete(note)
    return counted(archive, table, told)


def written_by(
    spark: SparkSession, pieces: list[Any], archive: IcebergArchive, table: str, read: Callable[[Any], Batches]
) -> list[DataFile]:
    """Write what tasks read of pieces, without a way through Java; give the files, which are committed later."""
    writer = FileWriter(archive.files, table, archive.schema(table))

    def work(piece: Any) -> Batches:
        files = writer.write(read(piece))
        yield pa.RecordBatch.from_pylist([{"path": name, "rows": count} for name, count in files], _WRITTEN)

    told = scattered(spark, pieces, "path string, rows bigint", work).collect()
    return counted(archive, table, [(row["path"], row["rows"]) for row in told])


def counted(archive: IcebergArchive, table: str, told: list[tuple[str, int]]) -> list[DataFile]:
    """The files that tasks tell of, if this machine sees all of their rows."""
    missing = "they are cut"
    try:
        found = archive.described(archive.table(table), [name for name, _ in told])
    except FileNotFoundError as error:
        found, missing = [], str(error)
    there, wrote = sum(file.record_count for file in found), sum(count for _, count in told)
    if there != wrote:
        raise PreconditionFailed(
            f"{archive.files.root}: tasks wrote {wrote:,} rows there, and this machine sees {there:,} of them ("
            f"{missing}); nothing was removed. Name a directory that every machine of the job sees in the same place, "
            "or an object store, or run the job with --master local[*]"
        )
    return found
