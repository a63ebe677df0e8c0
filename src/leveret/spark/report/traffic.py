"""What happened in queues, and who did it: from events."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.spark.report.period import ReportSpan
from leveret.spark.report.service import QUEUE, percentiles

FAILED = ("rejected", "delivery_limit")
GIVEN_BACK = ("nacked", "timed_out")
COUNTS = ("published", "delivered", "returned", "settled", "acked", "failed", "published_bytes")


def activity(events: DataFrame, span: ReportSpan) -> DataFrame:
    """What happened in each queue in each step of time."""
    kinds = ("published", "delivered", "returned", "settled")
    return (
        events.where(F.col("event").isin(*kinds))
        .groupBy(*QUEUE, span.step(F.col("at")).alias("step"))
        .agg(
            *(F.count_if(F.col("event") == kind).alias(kind) for kind in kinds),
            F.count_if(_acked()).alias("acked"),
            F.count_if(_failed()).alias("failed"),
            F.sum(F.when(F.col("event") == "published", F.col("bytes"))).alias("published_bytes"),
        )
        .select(*QUEUE, "step", *COUNTS)
    )


def rates(steps: DataFrame, span: ReportSpan) -> DataFrame:
    """What happened in each queue in each period, and which share of deliveries failed."""
    ended = F.col("failed") + F.col("acked")
    share = F.col("failed") / F.nullif(ended, F.lit(0))
    return (
        steps.groupBy(*QUEUE, span.at(F.col("step")).alias("period"))
        .agg(*(F.sum(name).alias(name) for name in COUNTS))
        .select(*QUEUE, "period", *COUNTS, ended.alias("ended"), share.alias("error_share"))
    )


def served(steps: DataFrame) -> DataFrame:
    """The queues from which something was taken."""
    return steps.where("delivered > 0").select(*QUEUE).distinct()


def consumers(events: DataFrame) -> DataFrame:
    """How each consumer did: what it ended well, what it gave back or failed, and how long it held messages."""
    ended = F.col("event").isin("settled", "returned") & F.col("consumer").isNotNull()
    span_s = F.unix_seconds(F.max("at")) - F.unix_seconds(F.min("at"))
    return (
        events.where(ended)
        .groupBy(*QUEUE, "consumer")
        .agg(
            F.count_if(_acked()).alias("acked"),
            F.count_if(F.col("event") == "returned").alias("returned"),
            F.count_if((F.col("event") == "settled") & ~_acked()).alias("failed"),
            F.min("at").alias("first_at"),
            F.max("at").alias("last_at"),
            (F.count_if(_acked()) / F.nullif(span_s, F.lit(0))).alias("acked_per_s"),
            *percentiles("held_ms"),
        )
    )


def _acked() -> Column:
    """Whether a delivery ended well."""
    return (F.col("event") == "settled") & (F.col("reason") == "acked")


def _failed() -> Column:
    """Whether a delivery ended otherwise, by what the consumer did or did not do."""
    return ((F.col("event") == "settled") & F.col("reason").isin(*FAILED)) | (
        (F.col("event") == "returned") & F.col("reason").isin(*GIVEN_BACK)
    )
