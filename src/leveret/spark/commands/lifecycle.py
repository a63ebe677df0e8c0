"""`leveret pipeline lifecycle`: one row for each message in each queue, as Parquet."""

from pyspark.sql import functions as F

from leveret.spark.commands.context import Context, Outcome, PrintedRows
from leveret.spark.directories import pattern_of
from leveret.spark.lifecycle import lifecycle
from leveret.spark.writing import write_parquet


def run(context: Context) -> Outcome:
    """Write the lives of messages, and say how they ended."""
    with context.spark() as (spark, status):
        context.catch_up(spark, status)
        status.tell("lives of messages")
        lives = lifecycle(context.table(spark, "events"))
        write_parquet(lives, context.given.out, mode="overwrite", server_alone=True)
        status.tell("outcomes")
        outcomes = (
            spark.read.parquet(pattern_of(context.given.out))
            .groupBy("outcome")
            .agg(F.count("*").alias("messages"), F.round(F.avg("waiting_ms")).cast("bigint").alias("waiting_ms"))
            .orderBy(F.desc("messages"))
        )
        rows = [row.asDict() for row in outcomes.collect()]
        beginning = context.beginning
    total = sum(row["messages"] for row in rows)
    listing = PrintedRows("outcomes", ("outcome", "messages", "waiting_ms"), rows)
    return Outcome({"lives": context.given.out, "messages": total, **beginning._asdict()}, (listing,))
