"""The tables of a report, in the order in which they are made: later ones are made from what earlier ones wrote.

lives                        one row for each message in each queue
activity                     what happened in each queue in each step of seconds
retries                      from when to when messages waited again that were given back
service                      how well messages were served, by queue, period and priority
history, totals              every figure by queue and period; all queues together by period
queues                       every figure by queue
priorities, tenants,         by queue and priority, or tenant; how fair a queue is to tenants
fairness
dead_letters, origins        by queue, period and reason; by the queue that they came from
consumers                    by queue and consumer
outlook                      by queue: where it is heading (outlook.py)
compared                     by queue: an earlier period beside this one (comparison.py)
streams, commits             by stream and group of a running broker; how long its commits take (streams.py)
alerts                       rules that fired, by queue
outcomes                     how messages ended, by queue
refusals, stream_traffic     refused publishes, by queue or exchange; what streams did
check, completeness          counters of the broker against history (see spark/check.py), and in one row
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.core.errors import NotFound
from leveret.core.outcomes import ACKED, DEATHS, FAILED_REASONS
from leveret.observability.alert_rules import RULES, AlertRule
from leveret.spark.beginning import COMPLETE, Beginning
from leveret.spark.check import compared, completeness
from leveret.spark.lifecycle import lifecycle
from leveret.spark.report import depth
from leveret.spark.report.outlook import outlook
from leveret.spark.report.period import ReportSpan, span
from leveret.spark.report.service import QUEUE, Objective, marked, one_of, percentiles, service, services, united
from leveret.spark.report.traffic import outcomes, refusals, stream_traffic

COUNTS = ("published", "delivered", "returned", "settled", "acked", "failed", "published_bytes", "held_ms")


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
            F.sum(F.when(F.col("event").isin("settled", "returned"), F.col("held_ms"))).alias("held_ms"),
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


def served_queues(steps: DataFrame, graveyards: DataFrame | None) -> DataFrame:
    """The queues whose messages should be done in time: from which something was taken, and not only dead letters."""
    taken = steps.where("delivered > 0").select(*QUEUE).distinct()
    return taken if graveyards is None else marked(taken, graveyards, "dead").where("not dead").drop("dead")


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
    return (F.col("event") == "settled") & F.col("reason").isin(*ACKED)


def _failed() -> Column:
    """Whether a delivery ended otherwise, by what the consumer did or did not do."""
    kinds = ((F.col("event") == event) & F.col("reason").isin(*reasons) for event, reasons in FAILED_REASONS.items())
    return reduce(Column.__or__, kinds)


HOUR_S = 3600
SEVERITIES = {"critical": "critical", "warnings": "warning"}
ALERT = ("rule", "severity", "figure", "limit", "unit")


def history(tables: list[DataFrame], span: ReportSpan) -> DataFrame:
    """All figures by queue and period."""
    return united(tables, (*QUEUE, "period")).withColumn("dead_per_hour", _per_hour("dead", span))


def alerts(told: DataFrame, graveyards: DataFrame | None) -> DataFrame:
    """Each rule and queue that fired: in how many periods, when first and last, and what was worst."""
    known = told.withColumn("graveyard", F.lit(False)) if graveyards is None else marked(told, graveyards, "graveyard")
    fired = F.filter(F.array(*(_alert(rule) for rule in RULES)), lambda each: each["value"] > each["limit"])
    found = known.select(*QUEUE, "period", F.inline(fired))
    return found.groupBy(*ALERT, *QUEUE).agg(
        F.count("*").alias("periods"),
        F.min("period").alias("first_at"),
        F.max("period").alias("last_at"),
        F.max("value").alias("worst"),
        F.max_by("period", "value").alias("worst_at"),
    )


def troubles(fired: DataFrame) -> DataFrame:
    """How many rules fired on each queue."""
    counts = {name: F.count_if(F.col("severity") == kind) for name, kind in SEVERITIES.items()}
    return fired.groupBy(*QUEUE).agg(*(count.alias(name) for name, count in counts.items()))


def totals(told: DataFrame) -> DataFrame:
    """What happened in all queues together in each period."""
    added = ("published", "delivered", "acked", "failed", "returned", "dead", "depth_end")
    return told.groupBy("period").agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in added))


def _per_hour(figure: str, span: ReportSpan) -> Column:
    """A count as one of the last hour; periods longer than that give their average."""
    if span.seconds >= HOUR_S:
        return F.coalesce(figure, F.lit(0)) * (HOUR_S / span.seconds)
    last_hour = Window.partitionBy(*QUEUE).orderBy(F.unix_seconds("period")).rangeBetween(1 - HOUR_S, 0)
    return F.coalesce(F.sum(figure).over(last_hour), F.lit(0)).cast("double")


def _alert(rule: AlertRule) -> Column:
    """A rule with its figure of a row; without one where it does not apply."""
    value = F.col(rule.figure)
    if rule.sample is not None:
        value = F.when(F.col(rule.sample) >= rule.sample_min, value)
    if rule.about_waiting:
        value = F.when(~F.col("graveyard"), value)
    facts = {
        "rule": F.lit(rule.name),
        "severity": F.lit(rule.severity),
        "figure": F.lit(rule.figure),
        "limit": F.lit(float(rule.limit)),
        "unit": F.lit(rule.unit),
        "value": value.cast("double"),
    }
    return F.struct(*(column.alias(name) for name, column in facts.items()))


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


def dead_letters(lives: DataFrame, span: ReportSpan) -> DataFrame:
    """How many messages died in each queue, by reason and period: became dead letters, or were discarded."""
    return (
        lives.where(F.col("outcome").isin(*DEATHS))
        .groupBy(*QUEUE, span.at(F.col("settled_at")).alias("period"), F.col("outcome").alias("reason"))
        .agg(F.count_if("dead_lettered").alias("dead"), F.count_if(~F.col("dead_lettered")).alias("discarded"))
    )


def deaths(dead: DataFrame) -> DataFrame:
    """How many messages died in each queue and period, for whatever reason."""
    return dead.groupBy(*QUEUE, "period").agg(*(F.sum(name).alias(name) for name in ("dead", "discarded")))


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


Keep = Callable[[str, DataFrame], DataFrame]
"""Writes a table, and gives it as it was written."""


@dataclass(frozen=True)
class Sources:
    """What a report is made from; `tags` has tenant and deaths of messages by queue and number."""

    events: DataFrame
    tags: DataFrame | None
    now: datetime | None = None
    """The time, if the broker runs: what is open now is older than at the last event."""
    beginning: Beginning = COMPLETE


def make(
    sources: Sources, keep: Keep, period: str | None, objective: Objective
) -> tuple[ReportSpan, dict[str, DataFrame]]:
    """All tables, each computed once."""
    # Without the consumers, whom events tell of: Spark joins texts by sorting all of them, and numbers by hashing.
    lives = keep("lives", lifecycle(sources.events).drop("consumer"))
    covered = extent(lives, period, sources.now)
    steps = keep("activity", activity(sources.events, covered))
    tags = None if sources.tags is None else keep("tags", sources.tags)
    buried = None if tags is None else graveyards(tags, lives)
    served = served_queues(steps, buried)
    again = keep("retries", depth.retries(sources.events, lives))
    found = {"lives": lives, "activity": steps}

    def add(name: str, table: DataFrame) -> DataFrame:
        found[name] = keep(name, table)
        return found[name]

    grouped = {"period": covered.at(F.col("enqueued_at")), "priority": F.coalesce("priority", F.lit(0))}
    figures = keep("service", services(lives, served, grouped, covered, objective))
    dead = add("dead_letters", dead_letters(lives, covered))
    told = add(
        "history",
        history(
            [
                rates(steps, covered),
                depth.depth(lives, steps, again, covered),
                depth.ages(lives, covered),
                one_of(figures, "period", grouped),
                deaths(dead),
            ],
            covered,
        ),
    )
    add("totals", totals(told))
    add("outcomes", outcomes(lives))
    add("refusals", refusals(sources.events))
    add("stream_traffic", stream_traffic(sources.events))
    add(
        "completeness",
        completeness(sources.events, add("check", compared(sources.events, sources.beginning)), sources.beginning),
    )
    fired = add("alerts", alerts(told, buried))
    add("queues", _queues(lives, told, [one_of(figures, None, grouped), troubles(fired)], covered))
    add("outlook", outlook(told, covered))
    add("priorities", starvation(one_of(figures, "priority", grouped)))
    add("consumers", consumers(sources.events))
    if tags is not None:
        add("origins", origins(tags))
        tenants = tags.where(F.col("tenant").isNotNull()).select("queue_id", "seq", "tenant")
        owned = lives.join(tenants, ["queue_id", "seq"])
        by_tenant = add("tenants", service(owned, served, {"tenant": F.col("tenant")}, covered, objective))
        add("fairness", fairness(by_tenant))
    return covered, found


def extent(lives: DataFrame, period: str | None, now: datetime | None = None) -> ReportSpan:
    """From when to when messages lived: to the last event, or to now."""
    times = [F.col(name) for name in ("enqueued_at", "first_delivered_at", "settled_at")]
    row = lives.agg(
        F.unix_millis(F.min(F.least(*times))).alias("first"), F.unix_millis(F.max(F.greatest(*times))).alias("until")
    ).head()
    if row is None or row["first"] is None:
        raise NotFound("there is no message to report on: name another directory, another queue or another time")
    first, until = (datetime.fromtimestamp(row[name] / 1000, UTC) for name in ("first", "until"))
    return span(first, until if now is None else max(until, now), period)


def _queues(lives: DataFrame, told: DataFrame, others: list[DataFrame], covered: ReportSpan) -> DataFrame:
    """Every figure of each queue over all of the time."""
    counted = told.groupBy(*QUEUE).agg(
        *(F.sum(name).alias(name) for name in (*COUNTS, "dead", "discarded")),
        *(F.max(name).alias(name) for name in ("depth_max", "waiting_max", "idle_ms", "oldest_ms")),
        F.max_by("depth_end", "period").alias("depth_end"),
        F.avg("depth_avg").alias("depth_avg"),
        (F.lit(1.0) - F.sum("unserved_s") / F.nullif(F.sum("seconds"), F.lit(0))).alias("available_share"),
    )
    shares = counted.withColumns(
        {
            "error_share": F.col("failed") / F.nullif(F.col("failed") + F.col("acked"), F.lit(0)),
            "dead_share": F.col("dead") / F.nullif(F.col("settled"), F.lit(0)),
        }
    )
    found = united([shares, *others, depth.oldest(lives, covered)], QUEUE)
    return found.fillna(0, list(SEVERITIES))
