"""Messages that died: why, where, and where they lie now."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from leveret.spark.report.period import ReportSpan
from leveret.spark.report.service import DEAD, QUEUE, united


def dead_letters(lives: DataFrame, span: ReportSpan) -> DataFrame:
    """How many messages died in each queue, by reason and period."""
    return (
        lives.where(F.col("outcome").isin(*DEAD))
        .groupBy(*QUEUE, span.at(F.col("settled_at")).alias("period"), F.col("outcome").alias("reason"))
        .agg(F.count("*").alias("dead"))
    )


def deaths(dead: DataFrame) -> DataFrame:
    """How many messages died in each queue and period, for whatever reason."""
    return dead.groupBy(*QUEUE, "period").agg(F.sum("dead").alias("dead"))


def origins(tags: DataFrame) -> DataFrame:
    """Which queues messages with a history of deaths came into, and where and why they had died last."""
    last = F.get("x_death", F.lit(0))
    return (
        tags.where(F.col("x_death").isNotNull())
        .groupBy(*QUEUE, last["queue"].alias("origin"), last["reason"].alias("reason"))
        .agg(F.count("*").alias("messages"), F.max(last["count"]).alias("deaths_max"))
    )


def graveyards(tags: DataFrame, lives: DataFrame) -> DataFrame:
    """The queues into which nothing but dead letters came."""
    dead = tags.where(F.col("x_death").isNotNull()).groupBy(*QUEUE).agg(F.count("*").alias("dead"))
    every = lives.where(F.col("enqueued_at").isNotNull()).groupBy(*QUEUE).agg(F.count("*").alias("messages"))
    return united([dead, every], QUEUE).where("dead >= messages").select(*QUEUE)
