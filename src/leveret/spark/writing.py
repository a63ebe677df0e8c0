"""Writing tables as Parquet: rows that tasks wrote are counted in the files that this machine sees.

Tasks write where they run. On machines with disks of their own the files are not where the driver looks for them, which
no error tells; so nothing is reported, and nothing removed, before both have the same number of rows.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from leveret.core.errors import PreconditionFailed
from leveret.file_sync import sync
from leveret.spark.directories import uri_of


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return not hasattr(spark, "_jsc")


WrittenFiles = dict[Path, Any]
"""Files with what the end of each says of it."""


def write_parquet(
    rows: DataFrame,
    directory: str,
    *,
    order: tuple[str, ...] = (),
    folders: tuple[str, ...] = (),
    mode: str = "errorifexists",
    server_alone: bool = False,
    options: Mapping[str, str] | None = None,
) -> WrittenFiles:
    """Write a table whose tasks each have their rows already, ordered and into folders by columns if that is wanted.

    `server_alone`: a server of Spark Connect may have directories of its own, which this machine does not see.
    """
    seen = Observation()
    # Before the rows are ordered: Spark would order them again for their folders, after a step that it does not know.
    counted = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    ordered = counted.sortWithinPartitions(*order) if order else counted
    writer = ordered.write.mode(mode).options(**(options or {}))
    (writer.partitionBy(*folders) if folders else writer).parquet(uri_of(directory))
    found = {path: pq.read_metadata(path) for path in sorted(Path(directory).rglob("*.parquet"))}
    there, wrote = sum(facts.num_rows for facts in found.values()), seen.get["rows"]
    if there != wrote and not (server_alone and not there and is_remote(rows.sparkSession)):
        raise PreconditionFailed(
            f"{directory}: tasks wrote {wrote:,} rows there, and this machine sees {there:,} of them; nothing was "
            "removed. Name a directory that every machine of the job sees in the same place, or run the job with "
            "--master local[*]"
        )
    return found


def sync_files(directory: str, paths: Iterable[str]) -> None:
    """Make files durable, and the names of all directories between them and a directory."""
    names = {name for path in paths for name in (path, *map(str, Path(path).parents))}
    for name in sorted(names, reverse=True):
        fd = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync(fd)
        finally:
            os.close(fd)
