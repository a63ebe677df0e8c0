"""Who had to wait for whom: priorities of a queue, and tenants (or message groups) that share it.

A priority is starved when its messages waited many times as long as those of the highest priority. Jain's index of some
figures is 1 when all are equal, and 1/n when one of n has everything.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.spark.report.service import QUEUE

STARVED_FACTOR = 10
STARVED_MS_MIN = 1000
"""Waits below this are of no concern, however short those of others are."""


def starvation(priorities: DataFrame) -> DataFrame:
    """The figures of each priority, with whether it is starved; queues with one priority cannot be."""
    highest = Window.partitionBy(*QUEUE)
    # Of those that were taken at all: what waits for ever says nothing about the others.
    best = F.max_by("waiting_p95_ms", F.when(F.col("waiting_p95_ms").isNotNull(), F.col("priority"))).over(highest)
    starved = F.col("waiting_p95_ms") > F.greatest(best * STARVED_FACTOR, F.lit(STARVED_MS_MIN))
    return priorities.withColumn("starved", F.coalesce(starved, F.lit(False)))


def fairness(tenants: DataFrame) -> DataFrame:
    """How equally each queue treats its tenants, and how equally they use it."""
    return tenants.groupBy(*QUEUE).agg(
        F.count("*").alias("tenants"),
        F.sum("messages").alias("messages"),
        jain("waiting_mean_ms").alias("waiting_fairness"),
        jain("messages").alias("load_fairness"),
    )


def jain(figure: str) -> Column:
    """Jain's index of a figure; 1 when all of it is 0."""
    value = F.col(figure).cast("double")
    return F.coalesce(F.pow(F.sum(value), 2) / F.nullif(F.count(value) * F.sum(value * value), F.lit(0.0)), F.lit(1.0))
