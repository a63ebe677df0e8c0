"""What a page or a terminal tells of a report: the rows of its tables, no more than can be read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from leveret.spark.report.period import ReportSpan
from leveret.spark.report.service import Objective

QUEUES_SHOWN_MAX = 12
DEEPEST_SHOWN_MAX = 6
SERVED = ("-waiting_p95_ms", "-processing_p95_ms", "in_time_share")
"""By these figures queues are chosen whose service is shown: those that have one, the worst first."""
ROWS_MAX = 1000
"""Of each other table; the Parquet files have all of them."""

Row = dict[str, Any]
TROUBLE = ("critical", "warnings", "dead", "discarded", "failed", "messages")
"""What makes a queue worse off than others: the first of these figures that differs."""
YEAR_H = 8_760
# By which figures, in SQL, the rows of a table are chosen that are shown; `-` is for the largest first.
ORDER = {
    "alerts": ("severity", "-worst"),
    "priorities": ("-max(starved) over (partition by vhost, queue)", "vhost", "queue", "priority"),
    "fairness": ("waiting_fairness",),
    "tenants": ("-messages",),
    "origins": ("-messages",),
    "consumers": ("-acked",),
    "outlook": (f"if(full_in_h <= {YEAR_H}, full_in_h, null)", "-consumers_needed", "-depth_1d"),
    "compared": ("-dead_per_hour", "-error_share", "-messages_per_hour"),
    "streams": ("-lag", "stream"),
    "outcomes": ("vhost", "queue", "-messages"),
    "refusals": ("-publishes",),
    "stream_traffic": ("-appended",),
    "check": ("-difference", "queue", "since"),
    "completeness": ("since",),
    "commits": ("commits",),
}


@dataclass(frozen=True)
class Findings:
    """The rows of a report, and what it is about."""

    span: ReportSpan
    objective: Objective
    queues_total: int
    summary: Row
    """Figures of all queues together."""
    queues: list[Row]
    """The queues that are worst off: by alerts, critical ones first, then by dead letters, then by messages."""
    deepest: list[Row]
    history: list[Row]
    """Of the deepest queues."""
    tables: dict[str, list[Row]]
    earlier: ReportSpan | None = None
    """What the table `compared` compares with."""
    served: dict[str, list[Row]] = field(default_factory=dict)
    """The queues that are served worst, by figure."""

    def of(self, table: str) -> list[Row]:
        """The rows of a table, none if it was not made."""
        return self.tables.get(table, [])

    def over_time(self, rows: Iterable[Row], figure: str) -> list[float | None]:
        """A figure in every period of the report."""
        known = {row["period"]: row[figure] for row in rows}
        return [known.get(start) for start in self.span.starts()]


def gather(
    span: ReportSpan, objective: Objective, tables: dict[str, DataFrame], earlier: ReportSpan | None = None
) -> Findings:
    """Fetch what is shown."""
    queues, deepest = (
        rows_of(tables["queues"].orderBy(*map(F.desc_nulls_last, by), "vhost", "queue").limit(most))
        for by, most in ((TROUBLE, QUEUES_SHOWN_MAX), (("depth_max",), DEEPEST_SHOWN_MAX))
    )
    names = F.struct("vhost", "queue")
    wanted = [F.struct(F.lit(row["vhost"]).alias("vhost"), F.lit(row["queue"]).alias("queue")) for row in deepest]
    shown = tables["history"].where(F.array_contains(F.array(*wanted), names)) if wanted else tables["history"].limit(0)
    # By periods alone, of which there are few: rows that are left out would look like times in which nothing happened.
    told = {"totals": tables["totals"], "deaths": _deaths(tables["dead_letters"])}
    ended = {"ended": rows_of(_ended(tables["outcomes"]))} if "outcomes" in tables else {}
    rest = ended | {
        name: rows_of(_ordered(tables[name], by).limit(ROWS_MAX)) for name, by in ORDER.items() if name in tables
    }
    rest |= {name: rows_of(table.orderBy("period")) for name, table in told.items()}
    (summary,) = rows_of(_summary(tables["queues"]))
    history = rows_of(shown.orderBy("period"))
    served = {}
    for by in SERVED:
        name = by.removeprefix("-")
        ranked = _ordered(tables["queues"].where(F.col(name).isNotNull()), (by, "vhost", "queue"))
        served[name] = rows_of(ranked.limit(QUEUES_SHOWN_MAX))
    return Findings(span, objective, summary["queues"], summary, queues, deepest, history, rest, earlier, served)


def _deaths(dead_letters: DataFrame) -> DataFrame:
    """Dead letters of all queues by period and reason."""
    return dead_letters.groupBy("period", "reason").agg(F.sum("dead").alias("dead")).where("dead > 0")


def _ended(outcomes: DataFrame) -> DataFrame:
    """How messages ended in all queues."""
    most = F.max_by(F.struct("vhost", "queue"), "messages").alias("place")
    sums = F.sum("messages").alias("messages"), F.count("*").alias("queues"), F.max("messages").alias("most")
    told = outcomes.groupBy("outcome", "transient").agg(*sums, most)
    return told.select("outcome", "transient", "messages", "queues", "most", "place.*").orderBy(F.desc("messages"))


def rows_of(table: DataFrame) -> list[Row]:
    """The rows of a table, times in UTC."""
    # As numbers: Spark would turn times into those of the machine's zone.
    times = [name for name, kind in table.dtypes if kind == "timestamp"]
    fetched = table.withColumns({name: F.unix_micros(name) for name in times}).collect()
    return [
        {name: _moment(value) if name in times else value for name, value in row.asDict(recursive=True).items()}
        for row in fetched
    ]


def _moment(micros: int | None) -> datetime | None:
    """A time of Spark."""
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)


def _ordered(table: DataFrame, by: tuple[str, ...]) -> DataFrame:
    """A table in an order."""
    # Spark orders by columns, not by what windows give.
    keys = {f"_by_{place}": figure for place, figure in enumerate(by)}
    keyed = table.withColumns({key: F.expr(figure.removeprefix("-")) for key, figure in keys.items()})
    order = (F.desc_nulls_last(key) if figure[0] == "-" else F.asc_nulls_last(key) for key, figure in keys.items())
    return keyed.orderBy(*order).drop(*keys)


def _summary(queues: DataFrame) -> DataFrame:
    """All queues as one."""
    added = (
        "messages", "published", "acked", "dead", "discarded", "taken", "redelivered", "judged", "in_time", "open",
        "failed",
    )  # fmt: skip
    return queues.agg(F.count("*").alias("queues"), *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in added))
