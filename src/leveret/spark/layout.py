"""How tables lie in a Parquet archive: by day and folder, one folder for each queue while there are not too many."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.spark.directories import pattern_of, uri_of
from leveret.spark.manifest import File, generation_directory
from leveret.spark.parquet import NAME_COLUMNS, TIME_COLUMNS
from leveret.spark.writing import write_parquet

FOLDERS_MAX = 1_000
"""With more queues than this in a run they share folders: each folder is a file for each day, at least."""
SHARED_FOLDERS = 64
FILE_BYTES = 256 << 20
"""About so many bytes of segments become one file."""
NO_QUEUE = "-"
NUMBERS = {"events": "seq", "messages": "offset", "records": "offset"}
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class ArchiveLayout:
    """Where the files of one generation go."""

    directory: str
    generation: int

    def write(self, rows: DataFrame, table: str, pieces: int) -> list[File]:
        """Write rows that have a day and a folder; give the files. `pieces` is about how many a folder gets."""
        spark = rows.sparkSession
        # Spark's default is a type of 96 bits without statistics, which others no longer read.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        piece = F.pmod(F.col(NUMBERS[table]), F.lit(pieces))
        written = write_parquet(
            rows.repartition("date", "folder", piece),
            generation_directory(self.directory, table, self.generation),
            order=("date", "folder", TIME_COLUMNS[table], NUMBERS[table]),
            folders=("date", "folder"),
            options={"compression": "zstd", "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"},
        )
        return [_described(self.directory, path, table, facts) for path, facts in written.items()]


def placed(rows: DataFrame, table: str, queues: int) -> DataFrame:
    """Rows with their day and folder; `queues` is how many different ones there can be."""
    return rows.withColumn("date", day_of(F.col(TIME_COLUMNS[table]))).withColumn("folder", _folder(table, queues))


def day_of(moment: Column) -> Column:
    """The day of a time in UTC, whatever the time zone of the session is."""
    return F.date_from_unix_date(F.floor(F.unix_millis(moment) / _DAY_MS).cast("int"))


def read_again(spark: SparkSession, directory: str, files: list[File], schema: str) -> DataFrame:
    """Rows of some files, with the days and folders that they lie in."""
    paths = [pattern_of(os.path.join(directory, file.path)) for file in files]
    base = uri_of(os.path.join(directory, files[0].table))
    return (
        spark.read.schema(f"{schema}, `date` date, `folder` string")
        .option("basePath", base)
        .parquet(*paths)
        .drop("generation")
    )


def _folder(table: str, queues: int) -> Column:
    """The folder of a row."""
    name = F.col(NAME_COLUMNS[table])
    if queues <= FOLDERS_MAX:
        return F.coalesce(name, F.lit(NO_QUEUE))
    return F.concat(F.lit("~"), F.pmod(F.xxhash64(name), F.lit(SHARED_FOLDERS)))


def _described(directory: str, path: Path, table: str, facts: Any) -> File:
    """What the manifest says of a file, from its end."""
    place = dict(part.split("=", 1) for part in path.parent.parts if "=" in part)
    first, last = _range(facts, NAME_COLUMNS[table])
    return File(
        path=path.relative_to(directory).as_posix(),
        table=table,
        date=place["date"],
        folder=unquote(place["folder"]),
        rows=facts.num_rows,
        bytes=path.stat().st_size,
        first_queue=first,
        last_queue=last,
    )


def _range(facts: Any, column: str) -> tuple[str | None, str | None]:
    """The smallest and largest text of a column."""
    at = facts.schema.names.index(column)
    found = [facts.row_group(number).column(at).statistics for number in range(facts.num_row_groups)]
    known = [each for each in found if each is not None and each.has_min_max]
    if not known:
        return None, None
    return min(each.min for each in known), max(each.max for each in known)
