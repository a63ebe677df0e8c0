"""Capacity: what a workload needs of brokers, disks, memory and networks.

A workload is given in numbers, or observed in a table of events; what is not given is assumed. What a message
costs is measured (docs/benchmarks.md says how); how full a machine should be, and what machines are like, is assumed.
Each figure says which it rests on.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leveret.core.errors import InvalidArgument
from leveret.spark.wording import digits, three

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY_S = 86_400
PEAK_S = 10
"""The peak of an observed workload is the average over so long: shorter bursts are what queues are for."""
PEAK_MESSAGES = 100
"""It is over longer where fewer come, up to an hour: two messages in one second are no peak."""
HOUR_S = 3_600
NUMBER_MAX = 1e15
"""No workload has more of anything."""
MEASURED: Final = "measured"
ASSUMED: Final = "assumed"
GIVEN: Final = "given"
OBSERVED: Final = "observed"


class Fact(NamedTuple):
    """A number that a plan rests on."""

    value: float
    unit: str
    basis: str
    about: str


PROTOCOLS: dict[str, Fact] = {
    "amqp": Fact(1.2, "us", MEASURED, "broker CPU for a message of 16 B: publish, journal, deliver, ack"),
    "rest": Fact(
        308, "us", MEASURED, "broker CPU for a message of 256 B: three requests send, take and acknowledge it"
    ),
    "sqs": Fact(
        187, "us", MEASURED, "broker CPU for a message of 256 B: signed SendMessage, ReceiveMessage, DeleteMessage"
    ),
}
"""What a message costs by the protocol of its clients, one message in each request."""
COSTS: dict[str, Fact] = {
    "cpu_us": PROTOCOLS["amqp"],
    "cpu_us_per_kib": Fact(1.8, "us", MEASURED, "broker CPU for each KiB of its body"),
    "index_bytes": Fact(22, "B", MEASURED, "memory of a waiting message whose body is on the disk"),
    "queue_bytes": Fact(3_420, "B", MEASURED, "memory of a queue"),
    "broker_bytes": Fact(70e6, "B", MEASURED, "memory of an idle broker"),
    "journal_bytes": Fact(120, "B", MEASURED, "log written for a message besides its body"),
    "archive_ratio": Fact(0.5, "", ASSUMED, "size of the Parquet archive by that of the log"),
    "cpu_share_max": Fact(0.6, "", ASSUMED, "how busy the thread of a broker may be at the peak"),
    "disk_bytes_per_s": Fact(400e6, "B/s", ASSUMED, "what the disk of a broker writes with a sync for each commit"),
    "disk_share_max": Fact(0.7, "", ASSUMED, "how much of that may be used"),
    "network_bytes_per_s": Fact(1.25e9, "B/s", ASSUMED, "network of a machine (10 Gbit/s)"),
    "network_share_max": Fact(0.7, "", ASSUMED, "how much of that may be used"),
    "buffer_factor": Fact(10, "", ASSUMED, "memory kept for bodies, as multiples of those in flight"),
    "shard_messages_per_s": Fact(50_000, "/s", ASSUMED, "what one shard of a cluster takes on its replicated journal"),
    "storage_replicas": Fact(3, "", ASSUMED, "copies of the log in a cluster"),
}
"""Measured ones are of one core of x86_64 with Python 3.11: `make bench` gives yours."""


@dataclass(frozen=True)
class Workload:
    """What is asked of the brokers; rates are averages over the whole day."""

    messages_per_s: float
    body_bytes: float = 1024
    peak_factor: float = 3.0
    queues: int = 1
    processing_s: float = 1.0
    backlog: float = 0
    """Messages that wait at the worst of times."""
    retention_days: float = 14
    deliveries: float = 1.0
    """How often a message is delivered, on average over all queues that get it."""
    protocol: str = "amqp"
    """What clients speak: see PROTOCOLS."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise InvalidArgument(f"protocol={self.protocol!r}: give one of {', '.join(PROTOCOLS)}")
        for each in fields(self):
            if each.name == "protocol":
                continue
            value = getattr(self, each.name)
            least = 1 if each.name in ("peak_factor", "queues") else 0
            if not (math.isfinite(value) and least <= value <= NUMBER_MAX):
                raise InvalidArgument(f"{each.name}={value!r}: give a number from {least} to {NUMBER_MAX:g}")


@dataclass(frozen=True)
class Bases:
    """What the facts of a workload rest on; those that are not named were given."""

    known: Mapping[str, str] = field(default_factory=dict)

    def of(self, *facts: str) -> str:
        """The weakest that some facts rest on; the rate is always one of them."""
        rests = {self.known.get(fact, GIVEN) for fact in ("messages_per_s", *facts)}
        return next(each for each in (ASSUMED, OBSERVED, GIVEN) if each in rests)


ALL_GIVEN = Bases()


class PlanFigure(NamedTuple):
    """One line of a plan."""

    figure: str
    value: float
    unit: str
    basis: str
    how: str


def plan(load: Workload, costs: Mapping[str, float] | None = None, bases: Bases = ALL_GIVEN) -> list[PlanFigure]:
    """The figures for a workload; `costs` replaces some of COSTS by numbers of one's own."""
    unknown = set(costs or ()) - set(COSTS)
    if unknown:
        raise InvalidArgument(f"unknown cost {', '.join(sorted(unknown))}: give some of {', '.join(COSTS)}")
    cost = {name: fact.value for name, fact in COSTS.items()}
    cost |= {"cpu_us": PROTOCOLS[load.protocol].value, **(costs or {})}
    peak = load.messages_per_s * load.peak_factor
    log_bytes = load.body_bytes + cost["journal_bytes"]
    in_flight = peak * load.processing_s
    stored = load.messages_per_s * log_bytes * DAY_S * load.retention_days
    moved_bytes = peak * load.body_bytes * (1 + load.deliveries)
    cpu_share = peak * (cost["cpu_us"] + cost["cpu_us_per_kib"] * load.body_bytes / 1024) / 1e6
    memory = (
        cost["broker_bytes"]
        + load.queues * cost["queue_bytes"]
        + load.backlog * cost["index_bytes"]
        + in_flight * load.body_bytes * cost["buffer_factor"]
    )
    needs = {
        "CPU": cpu_share / cost["cpu_share_max"],
        "disk": peak * log_bytes / (cost["disk_bytes_per_s"] * cost["disk_share_max"]),
        "network": moved_bytes / (cost["network_bytes_per_s"] * cost["network_share_max"]),
    }
    scarce = max(needs, key=lambda name: needs[name])
    return [
        PlanFigure("publishes", load.messages_per_s, "/s", bases.of(), "average"),
        PlanFigure("publishes at peak", peak, "/s", bases.of("peak_factor"), f"x {load.peak_factor:.3g}"),
        PlanFigure(
            "deliveries at peak",
            peak * load.deliveries,
            "/s",
            bases.of("peak_factor", "deliveries"),
            f"x {load.deliveries:.3g} per publish",
        ),
        PlanFigure("messages", load.messages_per_s * DAY_S, "/day", bases.of(), ""),
        PlanFigure(
            "messages in flight",
            in_flight,
            "",
            bases.of("peak_factor", "processing_s"),
            f"peak x {load.processing_s:.3g} s of processing",
        ),
        PlanFigure("log", load.messages_per_s * log_bytes * DAY_S, "B/day", MEASURED, "bodies and index"),
        PlanFigure("log written at peak", peak * log_bytes, "B/s", MEASURED, "bodies and index"),
        PlanFigure("storage", stored, "B", MEASURED, f"{load.retention_days:g} days of log, one copy"),
        PlanFigure("storage, replicated", stored * cost["storage_replicas"], "B", ASSUMED, "all copies of a cluster"),
        PlanFigure("archive", stored * cost["archive_ratio"], "B", ASSUMED, "the same as Parquet"),
        PlanFigure("memory", memory, "B", MEASURED, "all brokers: queues, backlog, bodies in flight with their buffer"),
        PlanFigure("bandwidth in", peak * load.body_bytes, "B/s", bases.of("peak_factor", "body_bytes"), "peak"),
        PlanFigure(
            "bandwidth out",
            peak * load.body_bytes * load.deliveries,
            "B/s",
            bases.of("peak_factor", "body_bytes", "deliveries"),
            "peak",
        ),
        PlanFigure("CPU at peak", cpu_share, "cores", MEASURED, f"all brokers, clients of {load.protocol.upper()}"),
        PlanFigure(
            "shards", max(1, math.ceil(peak / cost["shard_messages_per_s"])), "", ASSUMED, "of a cluster, at least"
        ),
        PlanFigure(
            "brokers", max(1, math.ceil(needs[scarce])), "", ASSUMED, f"{scarce} is what is scarce; without spares"
        ),
    ]


def observed(events: "DataFrame", retention_days: float = 14) -> Workload:
    """The workload that a table of events tells of, from its first publish to its last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    published, settled = F.col("event") == "published", F.col("event") == "settled"
    held = settled & (F.col("deliveries") > 0)
    published_at = F.when(published, F.unix_millis("at"))
    facts = events.agg(
        F.count_if(published).alias("published"),
        F.count_if(F.col("event") == "delivered").alias("delivered"),
        F.avg(F.when(published, F.col("bytes"))).alias("bytes"),
        F.avg(F.when(held, F.col("held_ms"))).alias("held_ms"),
        F.count_distinct(F.when(published, F.col("queue_id"))).alias("queues"),
        (F.max(published_at) - F.min(published_at)).alias("span_ms"),
    ).first()
    if facts is None or not facts["published"]:
        raise InvalidArgument("no message was published in these events: give another path or time, or numbers")
    rate = facts["published"] / max(1.0, facts["span_ms"] / 1000)
    step_s = min(max(PEAK_MESSAGES / rate, PEAK_S), HOUR_S)
    step = F.floor(F.unix_seconds("at") / step_s).alias("step")
    steps = events.groupBy(step).agg(F.count_if(published).alias("published"), F.count_if(settled).alias("settled"))
    waiting = F.sum(F.col("published") - F.col("settled")).over(Window.orderBy("step"))
    told = steps.withColumn("waiting", waiting).agg(F.max("published"), F.max("waiting")).first()
    busiest, worst = told or (0, 0)
    return Workload(
        messages_per_s=rate,
        body_bytes=facts["bytes"] or 0,
        peak_factor=max(1.0, busiest / step_s / rate),
        queues=max(1, facts["queues"]),
        processing_s=(facts["held_ms"] or 0) / 1000,
        backlog=max(0, worst),
        retention_days=retention_days,
        deliveries=facts["delivered"] / facts["published"],
    )


def readable(figure: PlanFigure) -> dict[str, str]:
    """A line of a plan for people."""
    unit = figure.unit
    rounded = three(figure.value)
    value, prefix = _scaled(rounded) if unit[:1] in ("B", "/", "") else (rounded, "")
    return {
        "figure": figure.figure,
        "value": f"{digits(value)} {prefix}{unit}".rstrip(),
        "basis": figure.basis,
        "how": figure.how,
    }


def as_facts(load: Workload, figures: list[PlanFigure]) -> dict[str, Any]:
    """A plan for programs."""
    return {
        "workload": asdict(load),
        "figures": [figure._asdict() for figure in figures],
        "costs": {name: fact._asdict() for name, fact in COSTS.items()}
        | {"cpu_us": PROTOCOLS[load.protocol]._asdict()},
    }


def _scaled(value: float) -> tuple[float, str]:
    """A large number with a prefix of its unit."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if value < 1000 or prefix == "P":
            return value, prefix
        value /= 1000
    return value, ""
