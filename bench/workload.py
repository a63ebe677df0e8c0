"""Events of a busy day, made by Spark: what the reports are measured with."""

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from leveret.pipeline.columns import spark_schema
from leveret.pipeline.events import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 20
CONSUMERS = 40
PRIORITIES = 5
DAY_MS = 86_400_000
MIDNIGHT_MS = 1_767_225_600_000
FAILED_PERCENT = 5
DEAD_PERCENT = 1


def events(spark: "SparkSession", messages: int) -> "DataFrame":
    """Three events for each message; two more for those that failed once."""
    lot = spark.range(messages).select(F.col("id").alias("seq"), *_drawn(messages))
    told = lot.select("*", F.explode(_events()).alias("e")).select("*", "e.*")
    known = {"vhost": F.lit("/"), "queue": F.format_string("queue-%02d", F.col("queue_id")), "consumer": _consumer()}
    types = {name: column.spark for name, column in EVENTS.items()}
    columns = [
        known.get(name, F.col(name) if name in told.columns else F.lit(None)).cast(kind).alias(name)
        for name, kind in types.items()
    ]
    frame = told.select(*columns)
    assert frame.schema.simpleString() == spark.createDataFrame([], spark_schema(EVENTS)).schema.simpleString()
    return frame


def _drawn(messages: int) -> list[Column]:
    """What chance, the same in every run, decides for a message."""
    chance = [F.pmod(F.xxhash64("id", F.lit(salt)), F.lit(1 << 20)) for salt in range(4)]
    wait_ms = F.pow(10.0, chance[1] / (1 << 20) * 4).cast("bigint")
    return [
        (F.pmod(chance[0], F.lit(QUEUES)) + 1).cast("int").alias("queue_id"),
        (F.lit(MIDNIGHT_MS) + F.col("id") * (DAY_MS // messages)).alias("start"),
        wait_ms.alias("wait"),
        (F.pow(10.0, chance[2] / (1 << 20) * 3)).cast("bigint").alias("work"),
        F.pmod(chance[3], F.lit(100)).alias("luck"),
        F.pmod(chance[2], F.lit(PRIORITIES)).cast("int").alias("level"),
    ]


def _events() -> Column:
    """The events of a message."""
    start, wait, work, luck = F.col("start"), F.col("wait"), F.col("work"), F.col("luck")
    failed = luck < FAILED_PERCENT
    settled = start + wait + work * F.when(failed, 3).otherwise(1)
    how = F.when(luck < DEAD_PERCENT, "rejected").otherwise("acked")
    tries = F.when(failed, 2).otherwise(1)
    first = [
        _event("published", start, priority=F.col("level"), bytes=F.lit(100)),
        _event("delivered", start + wait, deliveries=F.lit(1)),
    ]
    again = [
        _event("returned", start + wait + work, reason=F.lit("nacked"), deliveries=F.lit(1), held_ms=work),
        _event("delivered", start + wait + work * 2, deliveries=F.lit(2)),
    ]
    last = [_event("settled", settled, reason=how, deliveries=tries, held_ms=work)]
    return F.when(failed, F.array(*first, *again, *last)).otherwise(F.array(*first, *last))


def _event(name: str, at_ms: Column, **more: Column) -> Column:
    """One event, with every column that any of them has."""
    kinds = {"reason": "string", "deliveries": "int", "held_ms": "bigint", "priority": "int", "bytes": "bigint"}
    facts = [more.get(fact, F.lit(None)).cast(kind).alias(fact) for fact, kind in kinds.items()]
    at = F.timestamp_millis(at_ms)
    enqueued_at = at if name == "published" else F.lit(None).cast("timestamp")
    return F.struct(F.lit(name).alias("event"), at.alias("at"), enqueued_at.alias("enqueued_at"), *facts)


def _consumer() -> Column:
    """Who had the message, in events that say so."""
    name = F.format_string("worker-%02d", F.pmod(F.col("seq"), F.lit(CONSUMERS)))
    return F.when(F.col("event") != "published", name)
