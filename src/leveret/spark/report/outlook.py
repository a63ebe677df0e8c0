"""Outlook: where depth and storage are heading and how many consumers are needed, by the trend of a report's periods.

depth       a line of least squares through the average depth of the periods: `depth_per_hour` is its slope, `depth_fit`
            says how much of the ups and downs it explains (1: all); from the depth at the end it leads to `depth_1d`, a
            day later, and in `full_in_h` hours to the limit of the rule queue_depth
storage     `log_bytes_per_day` is the average; `log_bytes_30d` is what that adds up to within 30 days, as if nothing
            were removed, or what the same kind of line does through a week or more: in less, nights look like growth
consumers   messages of the busiest period, times how long one is held in all of its deliveries, by Little's law, when
            consumers are to be busy for 70 % of their time: `consumers_needed`. With a prefetch of more than one
            message the time in the consumer's buffer counts as held, so fewer consumers may do
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.observability.alert_rules import RULES
from leveret.spark.plan import COSTS, DAY_S
from leveret.spark.report.period import ReportSpan
from leveret.spark.report.service import QUEUE

BUSY_SHARE_MAX = 0.7
STORED_DAYS = 30
GROWTH_DAYS_MIN = 7
PERIODS_MIN = 3
"""Through fewer points every line is as good as another."""


def outlook(history: DataFrame, span: ReportSpan) -> DataFrame:
    """What follows for each queue if it goes on like this."""
    logged = F.coalesce("published_bytes", F.lit(0)) + F.coalesce("published", F.lit(0)) * COSTS["journal_bytes"].value
    per_day = logged * DAY_S / F.nullif("seconds", F.lit(0))
    limit = next(rule.limit for rule in RULES if rule.figure == "depth_max")
    # What has hardly begun, as the last period mostly has, says nothing about a whole one.
    days = F.when(F.col("seconds") * 2 >= span.seconds, F.unix_seconds("period") / DAY_S)
    told = history.groupBy(*QUEUE).agg(
        _trend(F.regr_slope("depth_avg", days) / 24, days).alias("depth_per_hour"),
        _trend(F.regr_r2("depth_avg", days), days).alias("depth_fit"),
        F.max_by("depth_end", "period").alias("depth_end"),
        (F.sum(logged) * DAY_S / F.nullif(F.sum("seconds"), F.lit(0))).alias("log_bytes_per_day"),
        _trend(F.regr_slope(per_day, days), days).alias("growth"),
        F.sum("seconds").alias("seen_s"),
        F.max(F.when(days.isNotNull(), F.col("published") / F.col("seconds"))).alias("peak_per_s"),
        (F.sum("held_ms") / F.nullif(F.sum("delivered") - F.sum("returned"), F.lit(0)) / 1000).alias("held_s"),
    )
    return told.select(
        *QUEUE,
        "depth_per_hour",
        "depth_fit",
        F.greatest(F.lit(0.0), F.col("depth_end") + F.col("depth_per_hour") * 24).alias("depth_1d"),
        F.when(F.col("depth_end") >= limit, 0.0)
        .when(F.col("depth_per_hour") > 0, (limit - F.col("depth_end")) / F.col("depth_per_hour"))
        .alias("full_in_h"),
        "log_bytes_per_day",
        F.greatest(
            F.lit(0.0),
            F.col("log_bytes_per_day") * STORED_DAYS
            + F.when(F.col("seen_s") >= GROWTH_DAYS_MIN * DAY_S, F.col("growth")).otherwise(0.0) * (STORED_DAYS**2 / 2),
        ).alias("log_bytes_30d"),
        F.ceil(F.col("peak_per_s") * F.col("held_s") / BUSY_SHARE_MAX).alias("consumers_needed"),
    )


def _trend(figure: Column, days: Column) -> Column:
    """A figure of a line; none through fewer points than make one."""
    return F.when(F.count(days) >= PERIODS_MIN, figure)
