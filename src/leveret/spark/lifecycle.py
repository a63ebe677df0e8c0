"""The lives of messages: from events to one row for each message in each queue.

outcome        how it left (`acked`, `rejected`, `expired`, ...), or `open`; `lost`: it was in memory only, and the
               broker was started again
waiting_ms     from when it could be taken until it was first delivered
dead_lettered  of what died: whether its queue has a dead-letter exchange; otherwise it was discarded
processing_ms  the time that consumers held it, all deliveries together
consumer       who had it last
transient      whether it was in memory only

Events are first turned into fragments, which tell a part of a life. Fragments of one message can be joined in any order
and any number of times, so the same steps serve a table of events and a stream of them:

    lifecycle(events) = lives(joined(fragments(events)))

    streamed(events)    joins what happens to a message in one go, and appends it when nothing more came for a while:
                        the state is bounded, however long messages stay in queues
    lives(joined(...))  on the table that was written: a message that was settled days later has two fragments there
"""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.core.outcomes import DEATHS
from leveret.spark.columns import QUEUE_BITS
from leveret.spark.events import EVENTS, SETTLED, TRANSIENT

OPEN = "open"
CLOCK = "clock"
"""The event of a row that tells a stream nothing but how late it is."""
MESSAGE = ("vhost", "queue", "queue_id", "seq")
PURGED_AT = "purged_at"
"""Part of the key of a fragment: set in those that tell of a purge, of all messages below `seq`; without a number of a
queue, of a start of the broker."""
TOLD = ("published", "moved", "delivered", "returned", "settled", "purged", "spared", "started")
"""The events that lives are made of."""
LATE = "10 minutes"
"""The order of a stream of events may be wrong by so much: the log is committed that long after an event at most."""
QUIET = "10 minutes"
"""A fragment of a stream ends when nothing happens to its message for so long."""


def lifecycle(events: DataFrame) -> DataFrame:
    """One row for each message in each queue; `enqueued_at` is null if its publish is not among the events."""
    return lives(joined(fragments(events)))


def streamed(events: DataFrame, late: str = LATE, quiet: str = QUIET) -> DataFrame:
    """Fragments from a stream of events, to be appended to a table."""
    # Any event shows how late it is. A condition without `at` would be moved to before the watermark.
    told = F.when(F.col("at").isNotNull(), F.col("event").isin(*TOLD))
    parts = _fragments(events.withWatermark("at", late).where(told))
    return joined(parts, F.session_window("at", quiet)).drop("session_window")


def mark(directory: str | Path, until: datetime) -> None:
    """Tell a stream of the files in a directory that all events before a time are in them: on a quiet broker nothing
    that comes later would show it."""
    place = Path(directory, f"clock-{until.astimezone(UTC):%Y%m%dT%H%M%S%f}.parquet")
    schema = pa.schema([(name, column.arrow) for name, column in EVENTS.items()])
    hidden = place.with_name(f".{place.name}")
    pq.write_table(pa.Table.from_pylist([{"event": CLOCK, "at": until}], schema), hidden)
    hidden.replace(place)


def fragments(events: DataFrame) -> DataFrame:
    """What each event tells about the life of its message, or of a queue that was emptied."""
    return _fragments(events.where(F.col("event").isin(*TOLD)))


def _fragments(told: DataFrame) -> DataFrame:
    event, at = F.col("event"), F.col("at")
    entered, settled = event.isin("published", "moved"), event == "settled"
    reasons = F.array(*(F.lit(reason) for reason in SETTLED))
    return told.select(
        *MESSAGE,
        F.when(event.isin("purged", "started"), at).alias(PURGED_AT),
        "at",
        F.when(entered, F.col("enqueued_at")).alias("enqueued_at"),
        F.when(entered, F.col("due_at")).alias("due_at"),
        F.when(event == "delivered", at).alias("first_delivered_at"),
        F.when(settled, at).alias("settled_at"),
        F.when(event == "spared", at).alias("spared_at"),
        # A number, because Spark joins numbers by hashing, and texts only by sorting all of them first.
        F.when(settled, F.array_position(reasons, F.col("reason"))).alias("settled_how"),
        "dead_lettered",
        "deliveries",
        F.when(event == "returned", 1).otherwise(0).cast("bigint").alias("returns"),
        # What leaves a queue that no consumer has taken was held by none, not for 0 ms.
        F.when((event == "returned") | (F.col("deliveries") > 0), F.col("held_ms")).alias("processing_ms"),
        "bytes",
        "priority",
        "consumer",
        F.when(F.col("consumer").isNotNull(), at).alias("consumer_at"),
        F.when(entered, (event == "published") & F.col("reason").eqNullSafe(TRANSIENT)).alias("transient"),
    )


def joined(parts: DataFrame, *window: Column) -> DataFrame:
    """The fragments of each message as one, or as one for each window of time."""
    return parts.groupBy(*MESSAGE, PURGED_AT, *window).agg(
        F.max("at").alias("at"),
        F.min("enqueued_at").alias("enqueued_at"),
        F.min("due_at").alias("due_at"),
        F.min("first_delivered_at").alias("first_delivered_at"),
        F.max("settled_at").alias("settled_at"),
        F.max("spared_at").alias("spared_at"),
        F.max("settled_how").alias("settled_how"),
        F.max("dead_lettered").alias("dead_lettered"),
        F.max("deliveries").alias("deliveries"),
        F.sum("returns").alias("returns"),
        F.sum("processing_ms").alias("processing_ms"),
        F.max("bytes").alias("bytes"),
        F.max("priority").alias("priority"),
        F.max_by("consumer", "consumer_at").alias("consumer"),
        F.max("consumer_at").alias("consumer_at"),
        F.min("transient").alias("transient"),
    )


def lives(whole: DataFrame) -> DataFrame:
    """Lives from joined fragments: purges end what they found."""
    messages = whole.where(F.col(PURGED_AT).isNull()).join(F.broadcast(_purges(whole)), "queue_id", "left")
    messages = messages.withColumn("shard", _shard()).join(F.broadcast(_starts(whole)), "shard", "left")
    survived = F.coalesce("spared_at", F.to_timestamp(F.lit("1970-01-01")))
    purged_at = _ended("purges", survived)
    lost_at = F.when(F.col("transient"), _ended("starts", F.col("enqueued_at")))
    settled_at = F.coalesce("settled_at", purged_at, lost_at)
    ended = F.when(purged_at.isNotNull(), "purged"), F.when(lost_at.isNotNull(), "lost")
    reasons = F.array(*(F.lit(reason) for reason in SETTLED))
    how = F.get(reasons, F.col("settled_how").cast("int") - 1)
    return messages.select(
        *MESSAGE,
        "enqueued_at",
        "due_at",
        "first_delivered_at",
        settled_at.alias("settled_at"),
        F.coalesce(how, *ended, F.lit(OPEN)).alias("outcome"),
        # Archives of earlier versions do not say whether a queue kept what died.
        F.when(how.isin(*DEATHS), F.coalesce("dead_lettered", F.lit(True))).alias("dead_lettered"),
        F.coalesce("deliveries", F.lit(0)).alias("deliveries"),
        "returns",
        ms_between(F.greatest("enqueued_at", "due_at"), F.col("first_delivered_at")).alias("waiting_ms"),
        "processing_ms",
        ms_between(F.col("enqueued_at"), settled_at).alias("total_ms"),
        "bytes",
        "priority",
        "consumer",
        F.coalesce("transient", F.lit(False)).alias("transient"),
    )


def _ended(ends: str, survived: Column) -> Column:
    """When the first of some purges, or starts, ended a message."""
    mine = F.filter(ends, lambda end: (F.col("seq") < end["below"]) & (end["at"] > survived))
    return F.array_min(F.transform(mine, lambda end: end["at"]))


def _shard() -> Column:
    return F.shiftright("queue_id", QUEUE_BITS)


def ms_between(start: Column, end: Column) -> Column:
    """Whole milliseconds from one time to another."""
    return F.unix_millis(end) - F.unix_millis(start)


def _purges(whole: DataFrame) -> DataFrame:
    """When each queue was emptied, and below which number."""
    return whole.where(F.col(PURGED_AT).isNotNull()).groupBy("queue_id").agg(F.collect_list(_end()).alias("purges"))


def _starts(whole: DataFrame) -> DataFrame:
    """When the broker of each shard was opened, and below which number transient messages were gone."""
    starts = whole.where(F.col(PURGED_AT).isNotNull() & (F.col("queue_id") == F.shiftleft(_shard(), QUEUE_BITS)))
    return starts.groupBy(_shard().alias("shard")).agg(F.collect_list(_end()).alias("starts"))


def _end() -> Column:
    return F.struct(F.col("seq").alias("below"), F.col(PURGED_AT).alias("at"))
