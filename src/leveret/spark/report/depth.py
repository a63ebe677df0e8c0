"""How full queues were, how long nothing was taken from them, and how old messages became.

Depth is followed in steps of seconds (see period.py): what comes and goes within one step does not show.

depth_end, depth_max, depth_avg   messages that were not settled; the average is over time
waiting_max                       messages that could be taken: of those that were given back, once they were due again
seconds, unserved_s               how long the period is, and how much of it breaks the rule no_consumers
idle_ms                           the longest time in which messages waited and none was delivered
oldest_ms                         the greatest age that a message reached; a delayed message is born when it is due
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.observability.alert_rules import RULES
from leveret.spark.lifecycle import ms_between
from leveret.spark.report.period import ReportSpan
from leveret.spark.report.service import QUEUE, born, united

IDLE_S_MAX = next(rule.limit for rule in RULES if rule.figure == "idle_ms") / 1000
LEFT_WAITING = ("expired", "maxlen", "cancelled", "moved", "retired")
"""How messages leave that no consumer holds, but for purges."""
MOVES = ("entered", "left", "arrived", "taken", "delivered")


def retries(events: DataFrame, lives: DataFrame) -> DataFrame:
    """From when to when messages waited again that were given back; those that still do have no end."""
    settled = (F.col("event") == "settled") & (F.col("reason").isin(*LEFT_WAITING))
    again = events.where((F.col("deliveries") > F.when(F.col("event") == "delivered", 1).otherwise(0)) & (
        F.col("event").isin("delivered", "returned") | settled
    ))  # fmt: skip
    # Not by time: a return has that of its commit, which may be after the next delivery.
    kinds = F.array(*(F.lit(kind) for kind in ("delivered", "returned", "settled")))
    in_turn = Window.partitionBy("queue_id", "seq").orderBy("deliveries", F.array_position(kinds, F.col("event")))
    waits = (
        again.withColumn("ended", F.lead("at").over(in_turn))
        .where("event = 'returned'")
        .select(*QUEUE, "queue_id", "seq", F.coalesce("due_at", "at").alias("began"), "ended")
    )
    # What was purged is told by lives only.
    gone = lives.select("queue_id", "seq", "settled_at")
    open_ones = waits.where("ended is null").join(gone, ["queue_id", "seq"], "left")
    told = [waits.where("ended is not null"), open_ones.withColumn("ended", F.col("settled_at")).drop("settled_at")]
    return reduce(DataFrame.unionByName, told).select(*QUEUE, F.least("began", "ended").alias("began"), "ended")


def depth(lives: DataFrame, activity: DataFrame, again: DataFrame, span: ReportSpan) -> DataFrame:
    """How full each queue was in each period, from its first to the last of all."""
    so_far = Window.partitionBy(*QUEUE).orderBy("step")
    waiting = F.sum(F.col("arrived") - F.col("taken")).over(so_far)
    levels = _moves(lives, activity, again, span).select(
        *QUEUE,
        "step",
        *MOVES,
        F.sum(F.col("entered") - F.col("left")).over(so_far).alias("depth"),
        waiting.alias("waiting"),
        _seconds_between(F.col("step"), F.lead("step").over(so_far), span).alias("seconds"),
    )
    # A run without deliveries begins with a delivery, or when the queue was empty.
    begins = (F.col("delivered") > 0) | (F.lag("waiting", 1, 0).over(so_far) <= 0)
    runs = levels.withColumn("stretch", F.sum(F.when(begins, 1).otherwise(0)).over(so_far))
    in_run = Window.partitionBy(*QUEUE, "stretch").orderBy("step")
    waited_s = F.when(F.col("waiting") > 0, F.col("seconds")).otherwise(0)
    unserved = F.sum(waited_s).over(Window.partitionBy(*QUEUE, "stretch")) > IDLE_S_MAX
    return (
        runs.withColumns({"idle_s": F.sum(waited_s).over(in_run), "unserved_s": F.when(unserved, waited_s)})
        .groupBy(*QUEUE, span.at(F.col("step")).alias("period"))
        .agg(
            F.sum("entered").alias("entered"),
            F.sum("left").alias("left"),
            F.max_by("depth", "step").alias("depth_end"),
            F.max("depth").alias("depth_max"),
            F.coalesce(
                F.sum(F.col("depth") * F.col("seconds")) / F.nullif(F.sum("seconds"), F.lit(0)),
                F.max_by("depth", "step"),
            ).alias("depth_avg"),
            F.max("waiting").alias("waiting_max"),
            (F.max("idle_s") * 1000).alias("idle_ms"),
            F.coalesce(F.sum("unserved_s"), F.lit(0)).alias("unserved_s"),
            F.sum("seconds").alias("seconds"),
        )
    )


def ages(lives: DataFrame, span: ReportSpan) -> DataFrame:
    """How old the oldest message of each queue became in each period: when it was settled, or when the period ended."""
    settled = F.struct(F.col("went").alias("period"), F.col("settled_ms").alias("age_ms"))
    waited = F.transform(
        "periods",
        lambda period: F.struct(period.alias("period"), ms_between(F.col("born"), span.end(period)).alias("age_ms")),
    )
    told = oldest_periods(lives, span).select(*QUEUE, F.inline(F.concat(F.array(settled), waited)))
    return told.where("period is not null").groupBy(*QUEUE, "period").agg(F.max("age_ms").alias("oldest_ms"))


def oldest_periods(lives: DataFrame, span: ReportSpan) -> DataFrame:
    """Messages that are settled when others are, with the periods at whose end they are the oldest of their queue.

    No period is told twice, however long messages live: of those that came later only what outlives all earlier ones
    is ever the oldest.
    """
    known = lives.where(F.col("enqueued_at").isNotNull() & (born() <= F.coalesce("settled_at", F.lit(span.until))))
    # Messages that came in the same period and left in the same period are one row from here on.
    lots = known.groupBy(*QUEUE, span.at(born()).alias("came"), span.at(F.col("settled_at")).alias("went")).agg(
        F.min(born()).alias("born"), F.max(ms_between(born(), F.col("settled_at"))).alias("settled_ms")
    )
    step = F.make_interval(secs=F.lit(span.seconds))
    gone = F.coalesce("went", F.lit(span.start_of(span.until)) + step)
    earlier = Window.partitionBy(*QUEUE).orderBy("born").rowsBetween(Window.unboundedPreceding, -1)
    first = F.greatest("came", F.max(gone).over(earlier))
    periods = F.when(first < gone, F.sequence(first, gone - step, step)).otherwise(F.array().cast("array<timestamp>"))
    return lots.withColumn("periods", periods)


def oldest(lives: DataFrame, span: ReportSpan) -> DataFrame:
    """What is still in each queue, and since when."""
    return (
        lives.where(F.col("outcome") == "open")
        .groupBy(*QUEUE)
        .agg(F.count("*").alias("open"), F.min("enqueued_at").alias("oldest_at"))
        .withColumn("oldest_open_ms", ms_between(F.col("oldest_at"), F.lit(span.until)))
    )


def _moves(lives: DataFrame, activity: DataFrame, again: DataFrame, span: ReportSpan) -> DataFrame:
    """What came and went in each step, with a row for the start of every period."""
    waited = born() <= F.coalesce("first_delivered_at", "settled_at", F.lit(span.until))
    changes = {
        "entered": F.col("enqueued_at"),
        "left": F.col("settled_at"),
        "arrived": F.when(waited, born()),
        "taken": F.when(waited, F.coalesce("first_delivered_at", "settled_at")),
    }
    known = lives.where(F.col("enqueued_at").isNotNull())
    # Messages with the same steps are counted first: far fewer than four rows for each message follow from that.
    steps = known.select(*QUEUE, *(span.step(time).alias(name) for name, time in changes.items()))
    retried = again.where(F.col("began") <= F.lit(span.until))
    waits = {"arrived": F.col("began"), "taken": F.col("ended")}
    steps = steps.unionByName(
        retried.select(*QUEUE, *(span.step(time).alias(name) for name, time in waits.items())), allowMissingColumns=True
    )
    lots = steps.groupBy(*QUEUE, *changes).agg(F.count("*").alias("messages"))
    moves = F.array(*(F.struct(F.lit(name).alias("move"), F.col(name).alias("step")) for name in changes))
    every = (
        lots.select(*QUEUE, "messages", F.inline(moves))
        .where("step is not null")
        .groupBy(*QUEUE, "step")
        .agg(*(F.sum(F.when(F.col("move") == name, F.col("messages"))).alias(name) for name in changes))
    )
    interval = F.make_interval(secs=F.lit(span.seconds))
    first = known.groupBy(*QUEUE).agg(span.at(F.min("enqueued_at")).alias("first"))
    grid = first.select(
        *QUEUE, F.explode(F.sequence("first", F.lit(span.start_of(span.until)), interval)).alias("step")
    )
    deliveries = activity.select(*QUEUE, "step", "delivered")
    return united([every, deliveries, grid], (*QUEUE, "step")).fillna(0, list(MOVES))


def _seconds_between(start: Column, end: Column, span: ReportSpan) -> Column:
    """How long a level lasted; the last one to the end of the report."""
    return F.unix_seconds(F.coalesce(end, F.greatest(F.lit(span.until), start))) - F.unix_seconds(start)
