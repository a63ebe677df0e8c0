"""A table by its path, however it is kept there."""

from pyspark.sql import DataFrame, SparkSession

from leveret.spark.manifest import is_archive
from leveret.spark.parquet import archived
from leveret.spark.source import LeveretSource


def read_table(spark: SparkSession, table: str, **options: str) -> DataFrame:
    """The table of a data directory, of an archive of segments, or of a Parquet archive; options as for the format."""
    if is_archive(options.get("path", "")):
        return archived(spark, LeveretSource({**options, "table": table}).scan())
    return spark.read.format("leveret").options(**{**options, "table": table}).load()
