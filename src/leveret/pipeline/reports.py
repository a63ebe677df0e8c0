"""Reports: what an operator wants to know of queues and consumers, from events and from the lives of messages."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.pipeline.lifecycle import OPEN

DEAD = ("rejected", "expired", "maxlen", "delivery_limit")
"""The outcomes after which a message goes to the dead letters, if its queue has a place for them."""
QUEUE = ("vhost", "queue")
SHARES = (0.5, 0.95, 0.99)


def rates(events: DataFrame) -> DataFrame:
    """What happened in each queue in each hour."""
    counted = ("published", "delivered", "returned", "settled")
    return (
        events.where(F.col("event").isin(*counted))
        .groupBy(*QUEUE, _hour("at"))
        .agg(*(F.count_if(F.col("event") == name).alias(name) for name in counted))
        .select(*QUEUE, "hour", *counted)
    )


def depth(lives: DataFrame) -> DataFrame:
    """How many messages each queue held at the end of each hour, from its first to the last of all hours."""
    entered = _moves(lives, "enqueued_at", entered=1, left=0)
    left = _moves(lives, "settled_at", entered=0, left=1)
    moves = (
        entered.unionByName(left)
        .groupBy(*QUEUE, "hour")
        .agg(F.sum("entered").alias("entered"), F.sum("left").alias("left"))
    )
    last = F.broadcast(moves.agg(F.max("hour").alias("last_hour")))
    grid = (
        moves.groupBy(*QUEUE)
        .agg(F.min("hour").alias("first_hour"))
        .join(last)
        .select(*QUEUE, F.explode(F.sequence("first_hour", "last_hour", F.expr("interval 1 hour"))).alias("hour"))
    )
    so_far = Window.partitionBy(*QUEUE).orderBy("hour")
    filled = grid.join(moves, [*QUEUE, "hour"], "left").fillna(0, ["entered", "left"])
    return filled.select(
        *QUEUE, "hour", "entered", "left", F.sum(F.col("entered") - F.col("left")).over(so_far).alias("depth")
    )


def latency(lives: DataFrame) -> DataFrame:
    """Waiting and processing times of each queue, by the hour in which messages came."""
    waiting, processing = _percentiles("waiting_ms"), _percentiles("processing_ms")
    return (
        lives.where(F.col("enqueued_at").isNotNull())
        .groupBy(*QUEUE, _hour("enqueued_at"))
        .agg(F.count("*").alias("messages"), *waiting, *processing)
        .select(*QUEUE, "hour", "messages", *_percentile_names("waiting_ms"), *_percentile_names("processing_ms"))
    )


def redelivery(lives: DataFrame) -> DataFrame:
    """How many delivered messages had to be delivered again, by the hour of the first delivery."""
    return (
        lives.where(F.col("first_delivered_at").isNotNull())
        .groupBy(*QUEUE, _hour("first_delivered_at"))
        .agg(F.count("*").alias("delivered"), F.count_if(F.col("deliveries") > 1).alias("redelivered"))
        .select(*QUEUE, "hour", "delivered", "redelivered", _share("redelivered", "delivered"))
    )


def dead_letters(lives: DataFrame) -> DataFrame:
    """How many messages died in each queue, by reason and hour."""
    return (
        lives.where(F.col("outcome").isin(*DEAD))
        .groupBy(*QUEUE, _hour("settled_at"), F.col("outcome").alias("reason"))
        .agg(F.count("*").alias("messages"))
        .select(*QUEUE, "hour", "reason", "messages")
    )


def oldest(lives: DataFrame) -> DataFrame:
    """What is still in each queue, and since when."""
    return (
        lives.where(F.col("outcome") == OPEN)
        .groupBy(*QUEUE)
        .agg(F.count("*").alias("messages"), F.min("enqueued_at").alias("oldest_at"))
        .select(*QUEUE, "messages", "oldest_at")
    )


def consumers(events: DataFrame) -> DataFrame:
    """How each consumer did: what it ended well, what it gave back, and how long it held messages."""
    ended = F.col("event").isin("settled", "returned") & F.col("consumer").isNotNull()
    return (
        events.where(ended)
        .groupBy(*QUEUE, "consumer")
        .agg(
            F.count_if(F.col("reason") == "acked").alias("acked"),
            F.count_if(F.col("event") == "returned").alias("returned"),
            F.count_if((F.col("event") == "settled") & (F.col("reason") != "acked")).alias("failed"),
            *_percentiles("held_ms"),
        )
        .select(*QUEUE, "consumer", "acked", "returned", "failed", *_percentile_names("held_ms"))
    )


def compliance(lives: DataFrame, within_ms: int) -> DataFrame:
    """Which share of each queue's messages was acknowledged in time, by the hour in which they came."""
    in_time = (F.col("outcome") == "acked") & (F.col("total_ms") <= within_ms)
    return (
        lives.where(F.col("enqueued_at").isNotNull())
        .groupBy(*QUEUE, _hour("enqueued_at"))
        .agg(F.count("*").alias("messages"), F.count_if(in_time).alias("in_time"))
        .select(*QUEUE, "hour", "messages", "in_time", _share("in_time", "messages"))
    )


def _hour(column: str) -> Column:
    """The hour of a time."""
    return F.date_trunc("hour", column).alias("hour")


def _moves(lives: DataFrame, column: str, *, entered: int, left: int) -> DataFrame:
    """Messages that came into queues, or left them, with the hour; those whose coming is unknown do neither."""
    known = F.col("enqueued_at").isNotNull() & F.col(column).isNotNull()
    return lives.where(known).select(*QUEUE, _hour(column), F.lit(entered).alias("entered"), F.lit(left).alias("left"))


def _percentile_names(column: str) -> list[str]:
    """The names of the percentiles of a column."""
    return [f"{column.removesuffix('_ms')}_p{share * 100:g}_ms" for share in SHARES]


def _percentiles(column: str) -> list[Column]:
    """The percentiles of a column, exactly."""
    return [
        F.percentile(column, share).alias(name) for share, name in zip(SHARES, _percentile_names(column), strict=True)
    ]


def _share(part: str, whole: str) -> Column:
    """One number as a share of another."""
    return (F.col(part) / F.col(whole)).alias("share")
