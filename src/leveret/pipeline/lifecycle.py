"""The lives of messages: from events to one row for each message in each queue.

outcome        how it left (`acked`, `rejected`, `expired`, ...), or `open`
waiting_ms     from when it could be taken until it was first delivered
processing_ms  the time that consumers held it, all deliveries together
consumer       who had it last
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

OPEN = "open"


def lifecycle(events: DataFrame) -> DataFrame:
    """One row for each message in each queue; `enqueued_at` is null if its publish is not among the events."""
    lives = _lives(events).join(F.broadcast(_purges(events)), "queue_id", "left")
    survived = F.coalesce("spared_at", F.to_timestamp(F.lit("1970-01-01")))
    purged_at = F.array_min(
        F.transform(
            F.filter("purges", lambda purge: (F.col("seq") < purge["below"]) & (purge["at"] > survived)),
            lambda purge: purge["at"],
        )
    )
    settled_at = F.coalesce("settled_at", purged_at)
    return lives.select(
        "vhost",
        "queue",
        "queue_id",
        "seq",
        "enqueued_at",
        "due_at",
        "first_delivered_at",
        settled_at.alias("settled_at"),
        F.coalesce("reason", F.when(purged_at.isNotNull(), "purged"), F.lit(OPEN)).alias("outcome"),
        "deliveries",
        "returns",
        ms_between(F.greatest("enqueued_at", "due_at"), F.col("first_delivered_at")).alias("waiting_ms"),
        "processing_ms",
        ms_between(F.col("enqueued_at"), settled_at).alias("total_ms"),
        "bytes",
        "priority",
        "consumer",
    )


def ms_between(start: Column, end: Column) -> Column:
    """Whole milliseconds from one time to another."""
    return F.unix_millis(end) - F.unix_millis(start)


def _lives(events: DataFrame) -> DataFrame:
    """What the events of single messages say."""
    entered = F.col("event").isin("published", "moved")
    settled = F.col("event") == "settled"
    return (
        events.where(~F.col("event").isin("purged", "defined"))
        .groupBy("queue_id", "seq")
        .agg(
            F.max("vhost").alias("vhost"),
            F.max("queue").alias("queue"),
            F.min(F.when(entered, F.col("enqueued_at"))).alias("enqueued_at"),
            F.min(F.when(entered, F.col("due_at"))).alias("due_at"),
            F.min(F.when(F.col("event") == "delivered", F.col("at"))).alias("first_delivered_at"),
            F.max(F.when(settled, F.col("at"))).alias("settled_at"),
            F.max(F.when(settled, F.col("reason"))).alias("reason"),
            F.max(F.when(F.col("event") == "spared", F.col("at"))).alias("spared_at"),
            F.coalesce(F.max("deliveries"), F.lit(0)).alias("deliveries"),
            F.count_if(F.col("event") == "returned").alias("returns"),
            F.sum("held_ms").alias("processing_ms"),
            F.max("bytes").alias("bytes"),
            F.max("priority").alias("priority"),
            F.max_by("consumer", F.when(F.col("consumer").isNotNull(), F.col("at"))).alias("consumer"),
        )
    )


def _purges(events: DataFrame) -> DataFrame:
    """When each queue was emptied, and below which number."""
    purge = F.struct(F.col("seq").alias("below"), F.col("at").alias("at"))
    return events.where(F.col("event") == "purged").groupBy("queue_id").agg(F.collect_list(purge).alias("purges"))
