"""The report as one HTML file: nothing is loaded from anywhere, and nothing in it runs."""

from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from leveret.observability.alert_rules import RULES
from leveret.spark.report import sections
from leveret.spark.report.findings import Findings, Row
from leveret.spark.report.wording import duration, figure, label, moment, number, share

ROWS_SHOWN_MAX = 25
QUEUES_PER_ALERT_MAX = 5


class Cell(NamedTuple):
    """A column of a table: its head, and what a row has there."""

    head: str
    text: Callable[[Row], str]
    words: bool = False


QUEUE = Cell("Queue", label, words=True)
QUEUES = (
    QUEUE,
    Cell("Messages", lambda row: number(row["messages"])),
    Cell("Acknowledged", lambda row: number(row["acked"])),
    Cell("Dead", lambda row: number(row["dead"] or 0)),
    Cell("Redelivered", lambda row: share(row["redelivered_share"])),
    Cell("Errors", lambda row: share(row["error_share"])),
    Cell("Depth now", lambda row: number(row["depth_end"])),
    Cell("Depth most", lambda row: number(row["depth_max"])),
    Cell("Oldest open", lambda row: duration(row["oldest_open_ms"])),
    Cell("Waiting 95 %", lambda row: duration(row["waiting_p95_ms"])),
    Cell("Processing 95 %", lambda row: duration(row["processing_p95_ms"])),
    Cell("In time", lambda row: share(row["in_time_share"])),
)
CONSUMERS = (
    QUEUE,
    Cell("Consumer", lambda row: str(row["consumer"]), words=True),
    Cell("Acknowledged", lambda row: number(row["acked"])),
    Cell("Per second", lambda row: number(row["acked_per_s"])),
    Cell("Gave back", lambda row: number(row["returned"])),
    Cell("Failed", lambda row: number(row["failed"])),
    Cell("Held, median", lambda row: duration(row["held_p50_ms"])),
    Cell("95 %", lambda row: duration(row["held_p95_ms"])),
    Cell("99 %", lambda row: duration(row["held_p99_ms"])),
)
ORIGINS = (
    Cell("Died in", lambda row: str(row["origin"]), words=True),
    Cell("Because", lambda row: str(row["reason"]), words=True),
    Cell("Now in", label, words=True),
    Cell("Messages", lambda row: number(row["messages"])),
)
FAIRNESS = (
    QUEUE,
    Cell("Tenants", lambda row: number(row["tenants"])),
    Cell("Messages", lambda row: number(row["messages"])),
    Cell("Fairness of waiting", lambda row: f"{row['waiting_fairness']:.2f}"),
    Cell("Fairness of load", lambda row: f"{row['load_fairness']:.2f}"),
)


class TableSection(NamedTuple):
    """A section with the first rows of one table of the report."""

    title: str
    says: str
    table: str
    cells: Sequence[Cell]


JAIN = "Jain's index: 1 when all tenants of a queue wait equally long, or send equally much; less when they do not."
LISTINGS = (
    TableSection("Where dead letters came from", "As the messages themselves tell it.", "origins", ORIGINS),
    TableSection("Consumers", "The busiest first.", "consumers", CONSUMERS),
    TableSection("Tenants", JAIN, "fairness", FAIRNESS),
)


def page(found: Findings) -> str:
    """The whole file."""
    style = files(__package__).joinpath("page.css").read_text()
    covered = f"{moment(found.span.first)} to {moment(found.span.until)} UTC, by the {found.span.period}"
    queues = f"{found.queues_total} queues"
    if found.queues_total > len(found.queues):
        queues = f"the {len(found.queues)} of {queues} that had most messages"
    body = "".join(
        [
            f"<header><h1>Queue report</h1><p>{covered}; {queues}.</p></header>",
            _tiles(found),
            _section("Alerts", "Every rule, and the queues on which it fired.", _alerts(found)),
            _section("Queues", "", table(QUEUES, found.queues)),
            *(_section(*each) for each in sections.plots(found)),
            *(_listing(found, each) for each in LISTINGS),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Queue report</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style></head><body><main>{body}</main></body></html>\n"
    )


def table(cells: Sequence[Cell], rows: Sequence[Row]) -> str:
    """Rows as a table that scrolls by itself on a narrow screen."""

    def kind(cell: Cell) -> str:
        return ' class="words"' if cell.words else ""

    head = "".join(f'<th scope="col"{kind(cell)}>{escape(cell.head)}</th>' for cell in cells)
    lines = (
        "<tr>" + "".join(f"<td{kind(cell)}>{escape(cell.text(row))}</td>" for cell in cells) + "</tr>" for row in rows
    )
    return (
        f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _section(title: str, says: str, content: str) -> str:
    """A part of the page; nothing if it has no content."""
    text = f"<p>{escape(says)}</p>" if says else ""
    return f"<section><h2>{escape(title)}</h2>{text}{content}</section>" if content else ""


def _tiles(found: Findings) -> str:
    """The figures that a glance should find."""
    every = found.summary
    fired = len({row["rule"] for row in found.of("alerts")})
    tiles = {
        "Messages": number(every["messages"]),
        "Acknowledged": number(every["acked"]),
        "Dead letters": number(every["dead"]),
        "Still open": number(every["open"]),
        "Redelivered": share(every["redelivered"] / every["taken"] if every["taken"] else None),
        f"Done within {duration(found.objective.within_ms)}": share(
            every["in_time"] / every["judged"] if every["judged"] else None
        ),
        "Rules that fired": f"{fired} of {len(RULES)}",
    }
    return '<dl class="tiles">' + "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in tiles.items()) + "</dl>"


def _alerts(found: Findings) -> str:
    """A row for each rule, whether it fired or not."""
    lines = []
    for rule in RULES:
        fired = sorted((row for row in found.of("alerts") if row["rule"] == rule.name), key=lambda row: -row["worst"])
        worst = ", ".join(
            f"{label(row)}: {figure(row['worst'], rule.unit)} at {moment(row['worst_at'])}"
            for row in fired[:QUEUES_PER_ALERT_MAX]
        )
        more = f" and {len(fired) - QUEUES_PER_ALERT_MAX} more" if len(fired) > QUEUES_PER_ALERT_MAX else ""
        state = f'<b class="bad">{escape(rule.severity)}</b>' if fired else '<b class="good">quiet</b>'
        lines.append(
            f'<tr><td class="words">{state}</td>'
            f'<td class="words">{escape(rule.name)}<small>{escape(rule.says)}</small></td>'
            f'<td>{escape(figure(rule.limit, rule.unit))}</td><td class="words wide">{escape(worst + more)}</td></tr>'
        )
    heads = ("State", "Rule", "Where it was worst")
    state, name, where = (f'<th scope="col" class="words">{head}</th>' for head in heads)
    return (
        f'<div class="table" tabindex="0"><table><thead><tr>{state}{name}<th scope="col">Limit</th>{where}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _listing(found: Findings, listing: TableSection) -> str:
    """A section with a table, if there is anything in it."""
    rows = found.of(listing.table)[:ROWS_SHOWN_MAX]
    return _section(listing.title, listing.says, table(listing.cells, rows) if rows else "")
