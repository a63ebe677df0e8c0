"""What history tells beside the lives of messages: how they ended, which publishes were refused, what streams did."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from leveret.spark.report.service import QUEUE


def outcomes(lives: DataFrame) -> DataFrame:
    """How messages ended in each queue, and whether they were in memory only."""
    return lives.groupBy(*QUEUE, "outcome", "transient").agg(F.count("*").alias("messages"))


def refusals(events: DataFrame) -> DataFrame:
    """Publishes that a queue refused, or that no queue was to get, and why."""
    refused = events.where("event = 'refused'").groupBy(*QUEUE, "exchange", "reason")
    return refused.agg(F.count("*").alias("publishes"), F.min("at").alias("first_at"), F.max("at").alias("last_at"))


def stream_traffic(events: DataFrame) -> DataFrame:
    """What was appended to each stream, and delivered to its consumers."""
    told = events.where("event in ('appended', 'read')").groupBy(*QUEUE)
    is_append = F.col("event") == "appended"
    return told.agg(
        F.count_if(is_append).alias("appended"),
        F.count_if(~is_append).alias("read"),
        F.coalesce(F.sum(F.when(is_append, F.col("bytes"))), F.lit(0)).alias("appended_bytes"),
    )
