"""A table by its path, however it is kept there."""

from pyspark.sql import DataFrame, SparkSession

from leveret.spark.directories import directory
from leveret.spark.manifest import is_archive
from leveret.spark.parquet import archived
from leveret.spark.source import LeveretSource

PLACES = ("path", "archive")


def read_table(spark: SparkSession, table: str, **options: str) -> DataFrame:
    """The table of a data directory, of an archive of segments, or of a Parquet archive; options as for the format."""
    located = {name: directory(name, value) if name in PLACES else value for name, value in options.items()}
    if is_archive(located.get("path", "")):
        return archived(spark, LeveretSource({**located, "table": table}).scan())
    return spark.read.format("leveret").options(**{**located, "table": table}).load()
