"""A workload that looks real, of any size, as rows of the table `events`; the same numbers give the same rows.

    queues      a few large, many small (Zipf); each has its own speed, failures and consumers
    time        busy days and quiet nights, with the peak in the afternoon
    messages    sizes over several orders of magnitude; most without priority
    failures    given back and tried again with backoff, until the last delivery; some rejected, some expired at once
    dead        what fails for good is published again to `NAME.dead`
    the end     what would happen after it has not happened: such messages are open

Everything is an expression of Spark on the number of a message, so that it is made where it is needed.
"""

import math
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.core.errors import InvalidArgument
from leveret.core.outcomes import DEATHS
from leveret.spark.events import EVENTS

DELIVERIES_MAX = 3
BACKOFF_S = 2
SWING = 0.6
"""The peak of a day is (1 + SWING) / (1 - SWING) times its quietest hour."""
PEAK = 0.55
"""So much of a day's messages have come when it is busiest, which is about 14 h."""
ZIPF = 1.1
CONSUMERS = 4
BODY_BYTES_MAX = 1 << 20
SPREAD = 1.0  # of the logarithm of sizes
REJECTED, EXPIRED, TIMED_OUT = 0.003, 0.002, 0.1
PRIORITIES = 10
PRIORITIZED = 0.2
KINDS = ("order", "invoice", "refund", "mail")
TENANTS = 20
DAY_MS = 86_400_000
START = datetime(2026, 1, 1, tzinfo=UTC)
_ROWS = 2**53  # distinct values of a fraction


@dataclass(frozen=True)
class TrafficVolume:
    """How much of it."""

    messages: int
    queues: int = 50
    days: float = 1.0
    seed: int = 1
    start: datetime = START
    body_bytes: int = 1_000
    failures: float = 0.03
    """Share of deliveries that fail, on average over queues."""
    waiting_ms: float = 200.0
    processing_ms: float = 80.0

    def __post_init__(self) -> None:
        ranges = {
            "messages": (1, 10**12),
            "queues": (1, 100_000),
            "days": (1 / 1440, 3650),
            "body_bytes": (1, BODY_BYTES_MAX),
            "failures": (0, 0.5),
            "waiting_ms": (0, 1e9),
            "processing_ms": (0, 1e9),
        }
        for each in fields(self):
            least, most = ranges.get(each.name, (None, None))
            value = getattr(self, each.name)
            if least is not None and not least <= value <= most:
                raise InvalidArgument(f"{each.name}={value!r}: give a number from {least:g} to {most:g}")

    @property
    def start_ms(self) -> int:
        """When it begins."""
        return int(self.start.timestamp() * 1000)

    @property
    def end_ms(self) -> int:
        """When it ends."""
        return int((self.start + timedelta(days=self.days)).timestamp() * 1000)

    def chance(self, what: str, *keys: str) -> Column:
        """A number from 0 to 1 that depends on the seed, a word and some columns only."""
        mixed = F.xxhash64(F.lit(self.seed), F.lit(what), *(F.col(key) for key in keys or ("id",)))
        return F.pmod(mixed, F.lit(_ROWS)) / _ROWS


def events(spark: SparkSession, traffic: TrafficVolume) -> DataFrame:
    """The events of a workload."""
    lived = _lives(spark, traffic)
    happened = [_published(), *(step for count in range(1, DELIVERIES_MAX + 1) for step in _delivery(count))]
    happened += [_expiry(), _dead_letter()]
    rows = lived.select(F.explode(F.filter(F.array(*happened), lambda each: each.isNotNull())).alias("event"))
    return (
        rows.select("event.*")
        .where(F.col("at_ms") < traffic.end_ms)
        .select(*(_cell(name).cast(column.spark).alias(name) for name, column in EVENTS.items()))
    )


def messages(spark: SparkSession, traffic: TrafficVolume) -> DataFrame:
    """The messages of a workload, to be published: to the queue that is their routing key."""
    text = F.concat(F.lit('{"number": '), F.col("id"), F.lit(', "filler": "'))
    body = F.concat(F.rpad(text, F.greatest(F.col("bytes").cast("int") - 2, F.length(text)), "x"), F.lit('"}'))
    kind = F.get(F.array(*map(F.lit, KINDS)), F.floor(traffic.chance("kind") * len(KINDS)).cast("int"))
    tenant = F.format_string("tenant-%d", _zipf(traffic.chance("tenant"), TENANTS))
    return _entered(spark, traffic).select(
        body.cast("binary").alias("value"),
        F.col("queue").alias("routing_key"),
        "priority",
        F.concat(F.lit(f"generated-{traffic.seed}-"), F.col("id")).alias("message_id"),
        F.lit("application/json").alias("content_type"),
        F.timestamp_millis("entered_ms").alias("timestamp"),
        F.create_map(F.lit("kind"), kind, F.lit("tenant"), tenant).alias("headers"),
    )


def queue_names(traffic: TrafficVolume) -> list[str]:
    """Every queue that a workload uses, without those of dead letters."""
    return [f"queue-{number:05d}" for number in range(1, traffic.queues + 1)]


def _entered(spark: SparkSession, traffic: TrafficVolume) -> DataFrame:
    """A row for each message: when it came, where to, and what it is like."""
    whole = F.col("id") * (traffic.days / traffic.messages)
    swing = F.sin((whole - F.floor(whole) - PEAK) * (2 * math.pi)) + math.sin(PEAK * 2 * math.pi)
    moment = (whole - swing * (SWING / (2 * math.pi))) * (traffic.days / _days_at(traffic.days) * DAY_MS)
    size = F.exp(_normal(traffic) * SPREAD) * traffic.body_bytes
    return (
        spark.range(traffic.messages)
        .withColumn("number", _zipf(traffic.chance("queue"), traffic.queues))
        .withColumn("queue", F.format_string("queue-%05d", "number"))
        .withColumn("entered_ms", (F.least(moment, F.lit(traffic.days * DAY_MS - 1)) + traffic.start_ms).cast("bigint"))
        .withColumn("bytes", F.least(F.greatest(size, F.lit(1)), F.lit(BODY_BYTES_MAX)).cast("bigint"))
        .withColumn("priority", _priority(traffic))
    )


def _lives(spark: SparkSession, traffic: TrafficVolume) -> DataFrame:
    """A row for each message, with everything that will happen to it, as columns of each delivery."""
    speed = F.exp(traffic.chance("speed", "number") * 3 - 1.5)
    failing = F.pow(traffic.chance("failing", "number"), 3) * 4 * traffic.failures
    rows = (
        _entered(spark, traffic)
        .withColumn("failing", failing)
        .withColumn("speed", speed)
        .withColumn("expired", traffic.chance("expired") < EXPIRED)
        .withColumn("consumer", F.format_string("worker-%d", F.floor(traffic.chance("consumer") * CONSUMERS)))
        .withColumn("taken_ms_1", F.col("entered_ms") + _waiting(traffic, "waiting"))
        .withColumn("failed_0", ~F.col("expired"))
    )
    for count in range(1, DELIVERIES_MAX + 1):
        held = (_exponential(traffic.chance(f"held {count}"), traffic.processing_ms) * F.col("speed")).cast("bigint")
        again = F.col(f"taken_ms_{count}") + held + BACKOFF_S**count * 1000 + _waiting(traffic, f"again {count}")
        rows = rows.withColumns(
            {
                f"held_ms_{count}": held,
                f"rejected_{count}": traffic.chance(f"rejected {count}") < REJECTED,
                f"taken_ms_{count + 1}": again,
            }
        ).withColumn(
            f"failed_{count}",
            F.col(f"failed_{count - 1}")
            & ~F.col(f"rejected_{count}")
            & (traffic.chance(f"failed {count}") < F.col("failing")),
        )
    timed_out = traffic.chance("timed out") < TIMED_OUT
    return rows.withColumn("given_back", F.when(timed_out, F.lit("timed_out")).otherwise(F.lit("nacked")))


def _delivery(count: int) -> list[Column]:
    """What happens in one delivery, if it comes to that: it is delivered, then settled or returned."""
    begun, failed = F.col(f"failed_{count - 1}"), F.col(f"failed_{count}")
    held, taken = F.col(f"held_ms_{count}"), F.col(f"taken_ms_{count}")
    rejected = F.when(F.col(f"rejected_{count}"), F.lit("rejected")).otherwise(F.lit("acked"))
    last = F.lit(count == DELIVERIES_MAX)
    reason = F.when(failed & ~last, F.col("given_back")).when(failed, F.lit("delivery_limit")).otherwise(rejected)
    ended = F.when(failed & ~last, F.lit("returned")).otherwise(F.lit("settled"))
    deliveries = F.lit(count)
    return [
        F.when(begun, _event(F.lit("delivered"), taken, deliveries=deliveries, consumer=F.col("consumer"))),
        F.when(
            begun,
            _event(ended, taken + held, reason=reason, deliveries=deliveries, held_ms=held, consumer=F.col("consumer")),
        ),
    ]


def _published() -> Column:
    """That a message came."""
    return _event(
        F.lit("published"), F.col("entered_ms"), priority=F.col("priority"), bytes=F.col("bytes"), enters=F.lit(True)
    )


def _expiry() -> Column:
    """That no consumer took a message in time."""
    return F.when(
        F.col("expired"), _event(F.lit("settled"), F.col("taken_ms_1"), reason=F.lit("expired"), deliveries=F.lit(0))
    )


def _dead_letter() -> Column:
    """That a message which failed for good came to the dead letters."""
    died_at = F.when(F.col("expired"), F.col("taken_ms_1"))
    for count in range(1, DELIVERIES_MAX + 1):
        dead = F.col(f"failed_{count - 1}") & F.col(f"rejected_{count}")
        if count == DELIVERIES_MAX:
            dead = dead | F.col(f"failed_{count}")
        died_at = F.coalesce(died_at, F.when(dead, F.col(f"taken_ms_{count}") + F.col(f"held_ms_{count}")))
    letter = _event(
        F.lit("published"), died_at, priority=F.col("priority"), bytes=F.col("bytes"), enters=F.lit(True), dead=True
    )
    return F.when(died_at.isNotNull(), letter)


def _event(
    event: Column, at_ms: Column, *, enters: Column | None = None, dead: bool = False, **facts: Column
) -> Column:
    """One event of a message; dead letters are messages of their own, with even numbers."""
    nothing = {"reason": "string", "deliveries": "int", "held_ms": "bigint", "consumer": "string"}
    nothing |= {"priority": "int", "bytes": "bigint"}
    queue = F.concat("queue", F.lit(".dead")) if dead else F.col("queue")
    return F.struct(
        event.alias("event"),
        at_ms.alias("at_ms"),
        queue.alias("queue"),
        (F.col("number") * 2 - (0 if dead else 1)).cast("bigint").alias("queue_id"),
        (F.col("id") * 2 + (2 if dead else 1)).alias("seq"),
        *(facts.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in nothing.items()),
        (F.lit(None) if enters is None else at_ms).cast("bigint").alias("enqueued_ms"),
    )


def _cell(name: str) -> Column:
    """A column of the table from what was made."""
    made = {
        "at": F.timestamp_millis("at_ms"),
        "vhost": F.lit("/"),
        "enqueued_at": F.timestamp_millis("enqueued_ms"),
        **dict.fromkeys(("due_at", "expires_at", "exchange"), F.lit(None)),
        "dead_lettered": F.when(F.col("reason").isin(*DEATHS), F.lit(True)),
    }
    return made[name] if name in made else F.col(name)


def _days_at(whole: float) -> float:
    """The time, in days, at which the messages of so many days have come: busy hours take less time for them."""
    swing = math.sin((whole % 1 - PEAK) * 2 * math.pi) + math.sin(PEAK * 2 * math.pi)
    return whole - swing * SWING / (2 * math.pi)


def _zipf(chance: Column, queues: int) -> Column:
    """A queue by its number: the share of number k falls with k to the power of ZIPF."""
    power = 1 - ZIPF
    spread = (queues + 1) ** power - 1
    return F.least(F.floor(F.pow(chance * spread + 1, F.lit(1 / power))), F.lit(queues)).cast("int")


def _normal(traffic: TrafficVolume) -> Column:
    """A number of the normal distribution."""
    radius = F.sqrt(F.log(F.greatest(traffic.chance("size"), F.lit(1e-12))) * -2)
    return radius * F.cos(traffic.chance("size too") * (2 * math.pi))


def _priority(traffic: TrafficVolume) -> Column:
    """A priority: 0 for most messages."""
    some = F.floor(traffic.chance("priority") * PRIORITIES).cast("int")
    return F.when(traffic.chance("prioritized") < PRIORITIZED, some).otherwise(F.lit(0))


def _waiting(traffic: TrafficVolume, what: str) -> Column:
    """How long a message waits until a consumer takes it: longer in slow queues."""
    return (_exponential(traffic.chance(what), traffic.waiting_ms) * F.col("speed")).cast("bigint")


def _exponential(chance: Column, mean: float) -> Column:
    """A number of the exponential distribution."""
    return F.log(F.greatest(chance, F.lit(1e-12))) * -mean
