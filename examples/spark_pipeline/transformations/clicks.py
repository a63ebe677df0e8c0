"""A declarative pipeline: a stream of the broker becomes a table, a summary of it, and messages in a queue.

Run it with `spark-pipelines run` in the folder above; stream `clicks` and queue `large-clicks` have to be there.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
SERVER = {"url": str(spark.conf.get("leveret.url"))}


@dp.table
def clicks() -> DataFrame:
    """Every record of the stream, once; an update of the pipeline goes on where the last one ended."""
    records = spark.readStream.format("leveret").options(**SERVER, stream="clicks", startingOffsets="earliest").load()
    return records.select(F.decode("value", "utf-8").alias("value"), "partition", "offset", "enqueued_at")


@dp.materialized_view
def clicks_by_partition() -> DataFrame:
    """How many there are."""
    return spark.read.table("clicks").groupBy("partition").count()


dp.create_sink("large_clicks", "leveret", {**SERVER, "queue": "large-clicks"})


@dp.append_flow(target="large_clicks")
def to_queue() -> DataFrame:
    """Those with a long body, as messages, each once."""
    return spark.readStream.table("clicks").where("length(value) > 2").select("value")
