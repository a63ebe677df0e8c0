"""A table by its path, however it is kept there."""

from pyspark.sql import DataFrame, SparkSession

from leveret.spark.archive_state import is_archive
from leveret.spark.directories import archive_place, is_stored
from leveret.spark.parquet import archived
from leveret.spark.source import LeveretSource

PLACES = ("path", "archive")


def read_table(spark: SparkSession, table: str, **options: str) -> DataFrame:
    """The table of a data directory, or of an archive of segments or tables; options as for the format."""
    located = {name: archive_place(name, value) if name in PLACES else value for name, value in options.items()}
    path = located.get("path")
    if path is not None and not is_stored(path) and is_archive(path):
        return archived(spark, LeveretSource({**located, "table": table}).scan())
    return spark.read.format("leveret").options(**{**located, "table": table}).load()
