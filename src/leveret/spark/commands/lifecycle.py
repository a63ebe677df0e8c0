"""`leveret pipeline lifecycle`: one row for each message in each queue, as Parquet."""

from pyspark.sql import functions as F

from leveret.spark.commands.context import Context, Outcome, PrintedRows
from leveret.spark.lifecycle import lifecycle


def run(context: Context) -> Outcome:
    """Write the lives of messages, and say how they ended."""
    with context.spark() as (spark, status):
        context.catch_up(spark, status)
        status.tell("lives of messages")
        lives = lifecycle(context.table(spark, "events"))
        lives.write.mode("overwrite").parquet(context.given.out)
        status.tell("outcomes")
        outcomes = (
            spark.read.parquet(context.given.out)
            .groupBy("outcome")
            .agg(F.count("*").alias("messages"), F.round(F.avg("waiting_ms")).cast("bigint").alias("waiting_ms"))
            .orderBy(F.desc("messages"))
        )
        rows = [row.asDict() for row in outcomes.collect()]
    total = sum(row["messages"] for row in rows)
    listing = PrintedRows("outcomes", ("outcome", "messages", "waiting_ms"), rows)
    return Outcome({"lives": context.given.out, "messages": total}, (listing,))
