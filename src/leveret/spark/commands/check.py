"""`leveret pipeline check`: compares what the broker counted with its history."""

from pyspark.sql import functions as F

from leveret.spark.check import compared, completeness
from leveret.spark.commands.context import Context, Outcome, PrintedRows
from leveret.spark.report.findings import rows_of

SHOWN_MAX = 100
DIFFERENCE = ("vhost", "queue", "since", "until", "counter", "counted", "history", "difference")


def run(context: Context) -> Outcome:
    """Print where they differ; that is a failure."""
    with context.spark() as (spark, status):
        context.catch_up(spark, status)
        status.tell("counters and history")
        events = context.table(spark, "events")
        beginning = context.beginning
        rows = compared(events, beginning).cache()
        (facts,) = rows_of(completeness(events, rows, beginning))
        differing = rows.where("difference <> 0").orderBy("since", "queue", "counter").select(*DIFFERENCE)
        found = rows_of(differing.limit(SHOWN_MAX))
        by_hour = rows_of(
            rows.groupBy(F.date_trunc("hour", "since").alias("hour"), "vhost", "queue")
            .agg(
                F.count("*").alias("figures"),
                F.sum("history").alias("events"),
                F.count_if(F.col("difference") != 0).alias("differences"),
            )
            .orderBy("hour", "vhost", "queue")
            .limit(SHOWN_MAX)
        )
    listings = (
        PrintedRows("queues and hours", ("hour", "vhost", "queue", "figures", "events", "differences"), by_hour),
        PrintedRows("differing", DIFFERENCE, found),
    )
    return Outcome(facts, listings, failed=facts["differences"] > 0)
