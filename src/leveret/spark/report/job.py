"""The job: read events, make tables, write them as Parquet with a page beside them.

out/index.html           the page
out/summary.txt          what the terminal shows
out/tables/NAME/         Parquet; report/tables.py says which there are
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.observability.alert_rules import RULES
from leveret.spark.beginning import Beginning
from leveret.spark.directories import directory, pattern_of
from leveret.spark.report.comparison import compared
from leveret.spark.report.findings import Findings, gather
from leveret.spark.report.page import QUEUES, Cell, lagging, page
from leveret.spark.report.service import QUEUE, Objective
from leveret.spark.report.streams import COMMIT_COLUMNS, LAG_RULE, STREAM_COLUMNS, CommitTimes, StreamLag
from leveret.spark.report.tables import Keep, Sources, make
from leveret.spark.tables import PLACES, read_table
from leveret.spark.wording import completeness, exact, figure, label, moment, share
from leveret.spark.writing import write_parquet


def summary(found: Findings) -> str:
    """What matters most, in text."""
    every = found.summary
    in_time = every["in_time"] / every["judged"] if every["judged"] else None
    lines = [
        f"{moment(found.span.first)} to {moment(found.span.until)} UTC: {exact(every['messages'])} messages in "
        f"{found.queues_total} queues, {exact(every['acked'])} acknowledged, {exact(every['dead'])} dead, "
        f"{exact(every['open'])} open, {share(in_time)} in time",
        "",
        *text_table(QUEUES, found.queues),
        "",
    ]
    units = {rule.name: rule.unit for rule in RULES}
    alerts = [
        f"{row['severity'].upper()} {row['rule']}: {label(row)} {figure(row['worst'], units[row['rule']])} "
        f"(limit {figure(row['limit'], units[row['rule']])}) at {moment(row['worst_at'])}"
        for row in found.of("alerts")
    ]
    alerts += [
        f"WARNING {LAG_RULE.name}: {row['stream']}, group {row['group']} {figure(row['lag'], LAG_RULE.unit)} "
        f"(limit {figure(LAG_RULE.limit, LAG_RULE.unit)}) now"
        for row in lagging(found)
    ]
    alerts = alerts or [f"none of the {len(RULES)} alert rules fired"]
    return "\n".join([*lines, completeness(found.of("completeness")), "", *alerts]) + "\n"


def text_table(cells: tuple[Cell, ...], rows: list[dict[str, object]]) -> list[str]:
    """Rows in columns of equal width, words to the left and figures to the right."""
    texts = [[cell.head for cell in cells], *([cell.text(row) for cell in cells] for row in rows)]
    widths = [max(len(line[place]) for line in texts) for place in range(len(cells))]
    return [
        "  ".join(
            text.rjust(width) if cell.unit else text.ljust(width)
            for text, width, cell in zip(line, widths, cells, strict=True)
        ).rstrip()
        for line in texts
    ]


TENANT_HEADER = "x-group-id"
PAGE_NAME = "index.html"


@dataclass(frozen=True)
class Report:
    """Where a report is, and what it found."""

    page: str
    summary: str
    findings: Findings


def build(
    spark: SparkSession,
    options: Mapping[str, str],
    out: str | os.PathLike[str],
    *,
    period: str | None = None,
    objective: Objective | None = None,
    tenant_header: str | None = TENANT_HEADER,
    compare: Mapping[str, str] | None = None,
    streams: Sequence[StreamLag] = (),
    commits: CommitTimes | None = None,
    now: datetime | None = None,
) -> Report:
    """Report on what the options of `format("leveret")` name; what was in `out` of an earlier report is replaced.

    `period` is second, minute, hour or day; None chooses by the length of the time. Without `tenant_header` messages
    are not read, only events: nothing is said about tenants, nor where dead letters came from. `compare` has the
    options `since` and `until` of an earlier time, which stands beside this one. `now` is the time if the broker runs.
    """

    def sources(chosen: Mapping[str, str], now: datetime | None) -> Sources:
        tags = None if tenant_header is None else read_tags(spark, chosen, tenant_header)
        places = (chosen[name] for name in PLACES if name in chosen)
        return Sources(read_table(spark, "events", **chosen), tags, now, Beginning.of(places))

    earlier = None
    if compare is not None:
        rest = {name: value for name, value in options.items() if name not in ("since", "until")}
        earlier = sources({**rest, **compare}, None)
    return build_from(
        spark,
        sources(options, now),
        out,
        period=period,
        objective=objective,
        earlier=earlier,
        streams=streams,
        commits=commits,
    )


def build_from(
    spark: SparkSession,
    sources: Sources,
    out: str | os.PathLike[str],
    *,
    period: str | None = None,
    objective: Objective | None = None,
    earlier: Sources | None = None,
    streams: Sequence[StreamLag] = (),
    commits: CommitTimes | None = None,
) -> Report:
    """Report on tables that are already there."""
    folder = Path(directory("out", os.fspath(out)))
    agreed, keep = objective or Objective(), kept(spark, folder)
    covered, tables = make(sources, keep, period, agreed)
    before = None
    if earlier is not None:
        before, past = make(earlier, kept(spark, folder / "earlier"), period, agreed)
        tables["compared"] = keep("compared", compared(tables["queues"], covered, past["queues"], before))
    if streams:
        tables["streams"] = keep("streams", spark.createDataFrame(list(streams), STREAM_COLUMNS))
    if commits is not None:
        tables["commits"] = keep("commits", spark.createDataFrame([commits], COMMIT_COLUMNS))
    found = gather(covered, agreed, tables, before)
    folder.mkdir(parents=True, exist_ok=True)
    text = summary(found)
    (folder / PAGE_NAME).write_text(page(found), encoding="utf-8")
    (folder / "summary.txt").write_text(text, encoding="utf-8")
    return Report(str(folder / PAGE_NAME), text, found)


def kept(spark: SparkSession, folder: Path) -> Keep:
    """What writes tables below a folder, and gives each as it was written."""

    def keep(name: str, table: DataFrame) -> DataFrame:
        path = str(folder / "tables" / name)
        write_parquet(table, path, mode="overwrite", server_alone=True)
        return spark.read.schema(table.schema).parquet(pattern_of(path))

    return keep


def read_tags(spark: SparkSession, options: Mapping[str, str], tenant_header: str) -> DataFrame:
    """What messages say about themselves: whose they are, and where they died before."""
    known = {TENANT_HEADER: ("message_group_id", F.col("message_group_id"))}
    column, tenant = known.get(tenant_header, ("headers", F.col("headers")[tenant_header]))
    columns = f"vhost,queue,queue_id,offset,x_death,{column}"
    messages = read_table(spark, "messages", **{**options, "columns": columns})
    tags = messages.select(*QUEUE, "queue_id", F.col("offset").alias("seq"), "x_death", tenant.alias("tenant"))
    return tags.where("x_death is not null or tenant is not null")
