"""The history of queues: every figure of every queue in every period, in one wide table; alerts are read off it."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.observability.alert_rules import RULES, AlertRule
from leveret.spark.report.period import ReportSpan
from leveret.spark.report.service import QUEUE, marked, united

HOUR_S = 3600
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
