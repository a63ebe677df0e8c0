"""How well messages were served: times, repeated deliveries, and how many were done within the time agreed."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.core.outcomes import ACKED, DEATHS
from leveret.spark.lifecycle import OPEN, ms_between
from leveret.spark.report.period import ReportSpan

QUEUE = ("vhost", "queue")
SHARES = (0.5, 0.95, 0.99)
DIGITS = 3
"""Of times, in percentiles."""


@dataclass(frozen=True)
class Objective:
    """What was agreed: such a share of messages is acknowledged within such a time."""

    within_ms: int = 60_000
    share: float = 0.99


def born() -> Column:
    """When a message could be taken for the first time."""
    return F.greatest("enqueued_at", "due_at")


def service(
    lives: DataFrame, served: DataFrame, by: dict[str, Column], span: ReportSpan, objective: Objective
) -> DataFrame:
    """Times and shares of messages whose coming is known, by queue and what else is said.

    `judged` are those that should be done: not those that were removed, nor those that are still in time, nor any
    in queues that are not among the `served`: mostly dead letters.
    """
    known = lives.where(F.col("enqueued_at").isNotNull())
    grouped = known.groupBy(*QUEUE, *(column.alias(name) for name, column in by.items()))
    return _with_shares(grouped.agg(*_figures(span, objective)), served)


def services(
    lives: DataFrame, served: DataFrame, by: dict[str, Column], span: ReportSpan, objective: Objective
) -> DataFrame:
    """The same by queue, and by queue and each of what else is said, from one look at the messages; see `one_of`."""
    known = lives.where(F.col("enqueued_at").isNotNull()).withColumns(by)
    sets = [QUEUE, *((*QUEUE, name) for name in by)]
    absent = {name: F.grouping(name) for name in by}
    about = F.concat(*(F.when(gone == 0, name).otherwise("") for name, gone in absent.items()))
    figures = known.groupingSets(sets, *QUEUE, *by).agg(about.alias("about"), *_figures(span, objective))
    return _with_shares(figures, served)


def one_of(figures: DataFrame, by: str | None, every: Collection[str]) -> DataFrame:
    """Out of `services` what `service` would give for one of its groupings; None: by queue alone."""
    return figures.where(F.col("about") == (by or "")).drop("about", *(name for name in every if name != by))


def _figures(span: ReportSpan, objective: Objective) -> list[Column]:
    """What is told of messages."""
    late = ms_between(born(), F.coalesce("settled_at", F.lit(span.until))) > objective.within_ms
    judged = F.col("outcome").isin(*ACKED, *DEATHS) | ((F.col("outcome") == OPEN) & late)
    return [
        F.count("*").alias("messages"),
        F.count_if(F.col("first_delivered_at").isNotNull()).alias("taken"),
        F.count_if(F.col("deliveries") > 1).alias("redelivered"),
        F.count_if(judged).alias("judged"),
        F.count_if(F.col("outcome").isin(*ACKED) & ~late).alias("in_time"),
        F.avg("waiting_ms").alias("waiting_mean_ms"),
        *percentiles("waiting_ms"),
        *percentiles("processing_ms"),
    ]


def _with_shares(figures: DataFrame, served: DataFrame) -> DataFrame:
    """Figures with shares; nothing is judged in queues without consumers."""
    judged = F.when(F.col("served"), F.col("judged")).otherwise(0)
    return (
        marked(figures, served, "served")
        .withColumn("judged", judged)
        .drop("served")
        .withColumns({"redelivered_share": share("redelivered", "taken"), "in_time_share": share("in_time", "judged")})
    )


def percentile_names(column: str) -> list[str]:
    """The names of the percentiles of a column."""
    return [f"{column.removesuffix('_ms')}_p{share * 100:g}_ms" for share in SHARES]


def rounded(column: str) -> Column:
    """A time in three digits: of a million different times no more than a few thousand are left, whatever they are."""
    value = F.col(column)
    step = F.pow(F.lit(10), F.greatest(F.floor(F.log10(value)) - (DIGITS - 1), F.lit(0)))
    return F.when(value < 10**DIGITS, value).otherwise(F.round(value / step) * step)


def percentiles(column: str) -> list[Column]:
    """The percentiles of a column, right to half a percent: those of all times exactly would take a number for each."""
    # The same expression each time: Spark computes it once.
    found = F.percentile(rounded(column), F.array(*(F.lit(share) for share in SHARES)))
    return [F.get(found, F.lit(place)).alias(name) for place, name in enumerate(percentile_names(column))]


def share(part: str, whole: str) -> Column:
    """One number as a share of another; null if there is none."""
    return F.col(part) / F.nullif(F.col(whole), F.lit(0))


def marked(table: DataFrame, queues: DataFrame, name: str) -> DataFrame:
    """A table with a column that says whether the queue of each row is among some."""
    few = queues.select(F.col("vhost").alias("_vhost"), F.col("queue").alias("_queue"))
    # The virtual host may be unknown, and null is equal to nothing.
    same = F.col("vhost").eqNullSafe(F.col("_vhost")) & (F.col("queue") == F.col("_queue"))
    found = table.join(F.broadcast(few), same, "left").withColumn(name, F.col("_queue").isNotNull())
    return found.drop("_vhost", "_queue")


def united(tables: list[DataFrame], keys: tuple[str, ...]) -> DataFrame:
    """Tables of different figures as one; a figure that a row does not have is null."""
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tables)
    figures = [name for name in every.columns if name not in keys]
    # Not a join: the virtual host may be unknown, and null is equal to nothing.
    return every.groupBy(*keys).agg(*(F.max(name).alias(name) for name in figures))
