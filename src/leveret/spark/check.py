"""Whether history has all that the broker counted, and nothing twice.

The broker notes what its queues have counted since it did so last: when an hour begins, when a segment is closed for
the archive, when a queue is deleted, and when it stops. What happened in such a span is compared with the events of
that span, by queue and counter. Counters begin at 0 with each start: of a run that was killed, what came after its last
note is not compared, nor is a span of which the first events are not there any more.

    published        published, and appended to streams     refused      of full queues
    delivered        delivered, and read from streams       maxlen       settled so, or refused by reject-publish-dlx
    acked            acked and auto_acked                   dropped      cancelled and retired
    rejected, expired, delivery_limit, moved                settled so
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.spark.beginning import COMPLETE, Beginning
from leveret.spark.columns import QUEUE_BITS

HOUR_MS = 3_600_000
SETTLED_AS = {
    "acked": "acked",
    "auto_acked": "acked",
    "rejected": "rejected",
    "expired": "expired",
    "maxlen": "maxlen",
    "delivery_limit": "delivery_limit",
    "cancelled": "dropped",
    "retired": "dropped",
    "moved": "moved",
}
COMPARED = ("published", "delivered", "refused", *dict.fromkeys(SETTLED_AS.values()))
LATE_MS = 5_000
"""An event may lie so much behind younger ones in the log."""


def compared(events: DataFrame, beginning: Beginning = COMPLETE) -> DataFrame:
    """One row for each queue, span and counter that is not 0: what was counted, what history has, the difference."""
    facts = _facts(events).withColumn("bucket", F.floor(F.col("ms") / HOUR_MS))
    hours = F.sequence(F.floor(F.col("since_ms") / HOUR_MS), F.floor(F.col("until_ms") / HOUR_MS))
    spans = spans_of(events, beginning).withColumn("bucket", F.explode(hours))
    within = facts.join(F.broadcast(spans), ["shard", "bucket"]).where("ms > since_ms and ms <= until_ms")
    return (
        within.groupBy("queue_id", "counter", "since_ms", "until_ms")
        .agg(F.max("vhost").alias("vhost"), F.max("queue").alias("queue"), *_sums())
        .select(
            "vhost",
            "queue",
            "queue_id",
            F.timestamp_millis("since_ms").alias("since"),
            F.timestamp_millis("until_ms").alias("until"),
            "counter",
            "counted",
            "history",
            (F.col("history") - F.col("counted")).alias("difference"),
        )
    )


def spans_of(events: DataFrame, beginning: Beginning) -> DataFrame:
    """The spans that history has from their beginning on; each is after `since_ms` and not after `until_ms`.

    A start is told with the first event behind it, which may be in a later segment than what happened before.
    """
    ended = events.where("event = 'counted' and reason is null")
    spans = ended.select(_shard(), (_ms() - F.col("held_ms")).alias("since_ms"), _ms().alias("until_ms"))
    starts = events.where("event = 'started'").select(_shard(), _ms().alias("since_ms"), F.lit(1).alias("is_first"))
    first = (
        events.where("event not in ('moved', 'defined', 'started', 'counted')")
        .groupBy(_shard())
        .agg(F.min(_ms()).alias("first_ms"))
    )
    known = spans.join(F.broadcast(starts.distinct()), ["shard", "since_ms"], "left").join(
        F.broadcast(first), "shard", "left"
    )
    from_start = "false" if beginning.gone_segments else "is_first is not null"
    return known.where(f"{from_start} or since_ms >= first_ms + {LATE_MS}").drop("is_first", "first_ms")


def completeness(events: DataFrame, rows: DataFrame, beginning: Beginning = COMPLETE) -> DataFrame:
    """One row: how many figures were compared and differ, of which time, and what is known to be missing."""
    since = F.greatest(F.min("at"), F.lit(beginning.complete_since).cast("timestamp"))
    told = rows.agg(
        F.count("*").alias("figures"),
        F.count_if(F.col("difference") != 0).alias("differences"),
        F.coalesce(F.sum("history"), F.lit(0)).alias("compared"),
        F.min("since").alias("since"),
        F.max("until").alias("until"),
    )
    lost = F.coalesce(F.sum(F.when(F.col("event") == "lost", F.col("seq"))), F.lit(0))
    return told.crossJoin(
        events.agg(
            since.alias("history_since"), F.lit(beginning.gone_segments).alias("gone_segments"), lost.alias("lost")
        )
    )


def _facts(events: DataFrame) -> DataFrame:
    """What was counted, and what happened, by queue, counter and time."""
    event, reason = F.col("event"), F.col("reason")
    settled = F.create_map(*(F.lit(word) for pair in SETTLED_AS.items() for word in pair))
    counters = (
        F.when(event == "counted", F.array(reason))
        .when(event.isin("published", "appended"), F.array(F.lit("published")))
        .when(event.isin("delivered", "read"), F.array(F.lit("delivered")))
        .when(event == "settled", F.array(settled[reason]))
        .when((event == "refused") & (reason == "full"), F.array(F.lit("refused")))
        .when((event == "refused") & (reason == "full_dead_lettered"), F.array(F.lit("refused"), F.lit("maxlen")))
    )
    is_count = event == "counted"
    return (
        events.select(
            _shard(),
            "vhost",
            "queue",
            "queue_id",
            _ms().alias("ms"),
            F.explode(counters).alias("counter"),
            F.when(is_count, F.col("seq")).otherwise(0).alias("counted"),
            F.when(is_count, 0).otherwise(1).alias("history"),
        )
        .where(F.col("counter").isin(*COMPARED))
        .groupBy("shard", "vhost", "queue", "queue_id", "counter", "ms")
        .agg(*_sums())
    )


def _sums() -> tuple[Column, Column]:
    return F.sum("counted").alias("counted"), F.sum("history").alias("history")


def _shard() -> Column:
    return F.shiftright("queue_id", QUEUE_BITS).alias("shard")


def _ms() -> Column:
    return F.unix_millis("at")
