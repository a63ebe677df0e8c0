"""The tables of a report, in the order in which they are made: later ones are made from what earlier ones wrote.

lives                        one row for each message in each queue
activity                     what happened in each queue in each step of seconds
service                      how well messages were served, by queue, period and priority
history, totals              every figure by queue and period; all queues together by period
queues                       every figure by queue
priorities, tenants,         by queue and priority, or tenant; how fair a queue is to tenants
fairness
dead_letters, origins        by queue, period and reason; by the queue that they came from
consumers                    by queue and consumer
alerts                       rules that fired, by queue
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from leveret.core.errors import NotFound
from leveret.spark.lifecycle import lifecycle
from leveret.spark.report import dead_letters, depth, fairness, history, traffic
from leveret.spark.report.period import ReportSpan, span
from leveret.spark.report.service import QUEUE, Objective, one_of, service, services, united

Keep = Callable[[str, DataFrame], DataFrame]
"""Writes a table, and gives it as it was written."""


@dataclass(frozen=True)
class Sources:
    """What a report is made from; `tags` has tenant and deaths of messages by queue and number."""

    events: DataFrame
    tags: DataFrame | None


def make(
    sources: Sources, keep: Keep, period: str | None, objective: Objective
) -> tuple[ReportSpan, dict[str, DataFrame]]:
    """All tables, each computed once."""
    # Without the consumers, whom events tell of: Spark joins texts by sorting all of them, and numbers by hashing.
    lives = keep("lives", lifecycle(sources.events).drop("consumer"))
    covered = extent(lives, period)
    steps = keep("activity", traffic.activity(sources.events, covered))
    served = traffic.served(steps)
    tags = None if sources.tags is None else keep("tags", sources.tags)
    found = {"lives": lives, "activity": steps}

    def add(name: str, table: DataFrame) -> DataFrame:
        found[name] = keep(name, table)
        return found[name]

    grouped = {"period": covered.at(F.col("enqueued_at")), "priority": F.coalesce("priority", F.lit(0))}
    figures = keep("service", services(lives, served, grouped, covered, objective))
    dead = add("dead_letters", dead_letters.dead_letters(lives, covered))
    told = add(
        "history",
        history.history(
            [
                traffic.rates(steps, covered),
                depth.depth(lives, steps, covered),
                depth.ages(lives, covered),
                one_of(figures, "period", grouped),
                dead_letters.deaths(dead),
            ],
            covered,
        ),
    )
    add("totals", history.totals(told))
    add("alerts", history.alerts(told, None if tags is None else dead_letters.graveyards(tags, lives)))
    add("queues", _queues(lives, told, one_of(figures, None, grouped), covered))
    add("priorities", fairness.starvation(one_of(figures, "priority", grouped)))
    add("consumers", traffic.consumers(sources.events))
    if tags is not None:
        add("origins", dead_letters.origins(tags))
        tenants = tags.where(F.col("tenant").isNotNull()).select("queue_id", "seq", "tenant")
        owned = lives.join(tenants, ["queue_id", "seq"])
        by_tenant = add("tenants", service(owned, served, {"tenant": F.col("tenant")}, covered, objective))
        add("fairness", fairness.fairness(by_tenant))
    return covered, found


def extent(lives: DataFrame, period: str | None) -> ReportSpan:
    """From when to when messages lived."""
    times = [F.col(name) for name in ("enqueued_at", "first_delivered_at", "settled_at")]
    row = lives.agg(
        F.unix_millis(F.min(F.least(*times))).alias("first"), F.unix_millis(F.max(F.greatest(*times))).alias("until")
    ).head()
    if row is None or row["first"] is None:
        raise NotFound("there is no message to report on: name another directory, another queue or another time")
    first, until = (datetime.fromtimestamp(row[name] / 1000, UTC) for name in ("first", "until"))
    return span(first, until, period)


def _queues(lives: DataFrame, told: DataFrame, served_how: DataFrame, covered: ReportSpan) -> DataFrame:
    """Every figure of each queue over all of the time."""
    counted = told.groupBy(*QUEUE).agg(
        *(F.sum(name).alias(name) for name in (*traffic.COUNTS, "dead")),
        *(F.max(name).alias(name) for name in ("depth_max", "waiting_max", "idle_ms", "oldest_ms")),
        F.max_by("depth_end", "period").alias("depth_end"),
        F.avg("depth_avg").alias("depth_avg"),
    )
    shares = counted.withColumns(
        {
            "error_share": F.col("failed") / F.nullif(F.col("failed") + F.col("acked"), F.lit(0)),
            "dead_share": F.col("dead") / F.nullif(F.col("settled"), F.lit(0)),
        }
    )
    return united([shares, served_how, depth.oldest(lives, covered)], QUEUE)
