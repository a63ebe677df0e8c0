"""The report as one HTML file: nothing is loaded from anywhere, and nothing in it runs."""

from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from operator import itemgetter
from typing import Any, NamedTuple

from leveret.observability.alert_rules import RULES
from leveret.spark.report import sections
from leveret.spark.report.findings import YEAR_H, Findings, Row
from leveret.spark.report.streams import LAG_RULE
from leveret.spark.report.tables import SEVERITIES
from leveret.spark.wording import (
    EXACT,
    NOTHING,
    UNITS,
    completeness,
    duration,
    exact,
    figure,
    label,
    moment,
    share,
    volume,
)

ROWS_SHOWN_MAX = 25
QUEUES_PER_ALERT_MAX = 5
HOUR_MS = 3_600_000


class Cell(NamedTuple):
    """A column of a table: its head, what a row has there, and in what it is counted; without a unit it is words."""

    head: str
    value: Callable[[Row], Any]
    unit: str = ""

    def text(self, row: Row) -> str:
        """What is written."""
        return UNITS[self.unit](self.value(row)) if self.unit else str(self.value(row))

    def exactly(self, row: Row) -> str:
        """What it is when it is pointed at, if that is more."""
        value = self.value(row)
        return "" if value is None or not self.unit else EXACT[self.unit](value)


def told(head: str, name: str, unit: str = "count") -> Cell:
    """A column of the table with a figure."""
    return Cell(head, itemgetter(name), unit)


def fired(row: Row) -> str:
    """How many rules fired on a queue."""
    counts = (("critical", row["critical"]), ("warning" if row["warnings"] == 1 else "warnings", row["warnings"]))
    return ", ".join(f"{count} {name}" for name, count in counts if count) or NOTHING


QUEUE = Cell("Queue", label)
QUEUES = (
    QUEUE,
    Cell("Alerts", fired),
    told("Messages", "messages"),
    told("Acknowledged", "acked"),
    Cell("Dead", lambda row: row["dead"] or 0, "count"),
    Cell("Discarded", lambda row: row["discarded"] or 0, "count"),
    told("Errors", "error_share", "share"),
    told("Depth at the end", "depth_end"),
    told("Depth at most", "depth_max"),
    told("Oldest at the end", "oldest_open_ms", "ms"),
    told("Waiting 95\u00a0%", "waiting_p95_ms", "ms"),
    told("Processing 95\u00a0%", "processing_p95_ms", "ms"),
    told("In time", "in_time_share", "share"),
    told("Served", "available_share", "share"),
)
CONSUMERS = (
    QUEUE,
    Cell("Consumer", itemgetter("consumer")),
    told("Acknowledged", "acked"),
    told("Per second", "acked_per_s"),
    told("Gave back", "returned"),
    told("Failed", "failed"),
    told("Held, median", "held_p50_ms", "ms"),
    told("95 %", "held_p95_ms", "ms"),
    told("99 %", "held_p99_ms", "ms"),
)
ORIGINS = (
    Cell("Died in", itemgetter("origin")),
    Cell("Because", itemgetter("reason")),
    Cell("Now in", label),
    told("Messages", "messages"),
)
FAIRNESS = (
    QUEUE,
    told("Tenants", "tenants"),
    told("Messages", "messages"),
    told("Fairness of waiting", "waiting_fairness"),
    told("Fairness of load", "load_fairness"),
)


def full_in(hours: float | None) -> str:
    """When a queue is at the limit; what is a year away is no news."""
    return NOTHING if hours is None else duration(hours * HOUR_MS) if hours <= YEAR_H else "over a year"


OUTLOOK = (
    QUEUE,
    told("Depth by the hour", "depth_per_hour"),
    told("Depth in a day", "depth_1d"),
    Cell("At the limit in", lambda row: full_in(row["full_in_h"]), "text"),
    Cell("Log by the day", lambda row: volume(row["log_bytes_per_day"]), "text"),
    Cell("Log in 30 days", lambda row: volume(row["log_bytes_30d"]), "text"),
    told("Consumers needed", "consumers_needed"),
)
STREAMS = (
    Cell("Stream", itemgetter("stream")),
    Cell("Group", lambda row: row["group"] or NOTHING),
    told("Records", "records"),
    told("Lag", "lag"),
)


def changed(head: str, name: str, unit: str = "count") -> Cell:
    """A figure as it was and as it is."""
    return Cell(head, lambda row: " → ".join(UNITS[unit](row[each]) for each in (f"{name}_before", name)), "text")


COMPARED = (
    QUEUE,
    changed("Messages/h", "messages_per_hour"),
    changed("Acknowledged/h", "acked_per_hour"),
    changed("Dead/h", "dead_per_hour"),
    changed("Errors", "error_share", "share"),
    changed("Depth at most", "depth_max"),
    changed("Waiting 95\u00a0%", "waiting_p95_ms", "ms"),
    changed("Processing 95\u00a0%", "processing_p95_ms", "ms"),
    changed("In time", "in_time_share", "share"),
)
OUTCOMES = (
    Cell("How they ended", lambda row: row["outcome"] + (", transient" if row["transient"] else "")),
    told("Messages", "messages"),
    told("Queues", "queues"),
    told("Most in one", "most"),
    QUEUE,
)
REFUSALS = (
    Cell("Where", lambda row: label(row) if row["queue"] else f"exchange {row['exchange'] or '(default)'}"),
    Cell("Why", lambda row: str(row["reason"])),
    told("Publishes", "publishes"),
    Cell("First", lambda row: moment(row["first_at"])),
    Cell("Last", lambda row: moment(row["last_at"])),
)
STREAM_TRAFFIC = (
    Cell("Stream", label),
    told("Appended", "appended"),
    Cell("Bytes", lambda row: volume(row["appended_bytes"]), "text"),
    told("Delivered", "read"),
)


class TableSection(NamedTuple):
    """A section with the first rows of one table of the report."""

    title: str
    says: str
    table: str
    cells: Sequence[Cell]


WORST = "The worst first: by critical alerts, then by warnings, dead letters, failed deliveries and messages."
JAIN = "Jain's index: 1 when all tenants of a queue wait equally long, or send equally much; less when they do not."
TREND = (
    "If it goes on like this: depth follows a line of least squares through the periods, and log, too, if they are a "
    "week or more; the limit is that of the rule queue_depth. Consumers are needed for the busiest period, each with "
    "one message at a time and busy for 70 % of its time."
)
CHECK = (
    QUEUE,
    Cell("From", lambda row: moment(row["since"])),
    Cell("Until", lambda row: moment(row["until"])),
    Cell("Counter", lambda row: str(row["counter"])),
    told("Counted", "counted"),
    told("In history", "history"),
)


def differences(found: Findings) -> list[Row]:
    """Where the broker counted something else than history has."""
    return [row for row in found.of("check") if row["difference"]][:ROWS_SHOWN_MAX]


LISTINGS = (
    TableSection("Outlook", TREND, "outlook", OUTLOOK),
    TableSection(
        "Streams", "As the server has them now; the groups that are furthest behind first.", "streams", STREAMS
    ),
    TableSection("Stream traffic", "What history has of appends and reads.", "stream_traffic", STREAM_TRAFFIC),
    TableSection("Outcomes", "How messages left their queues, and from which most of them did so.", "ended", OUTCOMES),
    TableSection("Refused publishes", "No queue, or not this one, took them.", "refusals", REFUSALS),
    TableSection("Where dead letters came from", "As the messages themselves tell it.", "origins", ORIGINS),
    TableSection("Consumers", "The busiest first.", "consumers", CONSUMERS),
    TableSection("Tenants", JAIN, "fairness", FAIRNESS),
)


def confirms(row: Row) -> str:
    """How long publishers wait."""
    p50, p95, p99 = (duration(row[name]) for name in ("p50_ms", "p95_ms", "p99_ms"))
    return (
        f"Of {exact(row['commits'])} commits since the server was started, 95 % were durable within {p95} of the first "
        f"publish or settlement that waited for them (50 %: {p50}, 99 %: {p99}). Confirms are sent then."
    )


def page(found: Findings) -> str:
    """The whole file."""
    style = files(__package__).joinpath("page.css").read_text()
    covered = f"{moment(found.span.first)} to {moment(found.span.until)} UTC, by the {found.span.period}"
    queues = f"{found.queues_total} queues"
    if found.queues_total > len(found.queues):
        queues = f"the {len(found.queues)} of {queues} that are worst off"
    wrong = differences(found)
    body = "".join(
        [
            f"<header><h1>Queue report</h1><p>{covered}; {queues}.</p></header>",
            _tiles(found),
            _section("Alerts", "Every rule, and the queues on which it fired.", _alerts(found)),
            _section("Queues", WORST, table(QUEUES, found.queues)),
            _comparison(found),
            *(_section(*each) for each in sections.plots(found)),
            *(_listing(found, each) for each in LISTINGS),
            *(_section("Confirms", confirms(row), " ") for row in found.of("commits")),
            _section("Completeness", completeness(found.of("completeness")), table(CHECK, wrong) if wrong else " "),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Queue report</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style></head><body><main>{body}</main></body></html>\n"
    )


def table(cells: Sequence[Cell], rows: Sequence[Row]) -> str:
    """Rows as a table that scrolls by itself on a narrow screen."""
    head = "".join(f'<th scope="col"{_kind(cell)}>{escape(cell.head)}</th>' for cell in cells)
    lines = (f"<tr{_severity(row)}>{''.join(_written(cell, row) for cell in cells)}</tr>" for row in rows)
    return (
        f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _kind(cell: Cell) -> str:
    return "" if cell.unit else ' class="words"'


def _written(cell: Cell, row: Row) -> str:
    """A cell, with its exact figure for a pointer."""
    tip = cell.exactly(row)
    title = f' title="{escape(tip)}"' if tip else ""
    return f"<td{_kind(cell)}{title}>{escape(cell.text(row))}</td>"


def _severity(row: Row) -> str:
    """The worst of the alerts about a queue, by which its row has a colour."""
    worst = next((kind for name, kind in {**SEVERITIES, "warning": "warning"}.items() if row.get(name)), "")
    return f' class="{worst}"' if worst else ""


def _section(title: str, says: str, content: str) -> str:
    """A part of the page; nothing if it has no content."""
    text = f"<p>{escape(says)}</p>" if says else ""
    return f"<section><h2>{escape(title)}</h2>{text}{content}</section>" if content else ""


def _tiles(found: Findings) -> str:
    """The figures that a glance should find."""
    every = found.summary
    alerts = found.of("alerts") + [{"rule": LAG_RULE.name, "severity": LAG_RULE.severity} for _ in lagging(found)]
    fired = {kind: len({row["rule"] for row in alerts if row["severity"] == kind}) for kind in SEVERITIES.values()}
    tiles = {
        "Critical rules that fired": str(fired["critical"]),
        "Warnings that fired": str(fired["warning"]),
        "Messages": exact(every["messages"]),
        "Acknowledged": exact(every["acked"]),
        "Dead letters": exact(every["dead"]),
        "Discarded": exact(every["discarded"]),
        "Open at the end": exact(every["open"]),
        "Redelivered": share(every["redelivered"] / every["taken"] if every["taken"] else None),
        f"Done within {duration(found.objective.within_ms)}": share(
            every["in_time"] / every["judged"] if every["judged"] else None
        ),
    }
    return '<dl class="tiles">' + "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in tiles.items()) + "</dl>"


def _alerts(found: Findings) -> str:
    """A row for each rule, whether it fired or not: critical ones first, and those that did not fire last."""
    lines = []
    by_rule = {rule: [row for row in found.of("alerts") if row["rule"] == rule.name] for rule in RULES}
    where = {
        rule: [f"{label(row)}: {figure(row['worst'], rule.unit)} at {moment(row['worst_at'])}" for row in _worst(rows)]
        for rule, rows in by_rule.items()
    }
    if found.of("streams"):
        where[LAG_RULE] = [
            f"{row['stream']}, group {row['group']}: {figure(row['lag'], LAG_RULE.unit)} now" for row in lagging(found)
        ]
    severities = list(SEVERITIES.values())
    for rule in sorted(where, key=lambda rule: (not where[rule], severities.index(rule.severity))):
        fired = where[rule]
        worst = ", ".join(f"<span>{escape(each)}</span>" for each in fired[:QUEUES_PER_ALERT_MAX])
        more = f" and {len(fired) - QUEUES_PER_ALERT_MAX} more" if len(fired) > QUEUES_PER_ALERT_MAX else ""
        state = f'<b class="{rule.severity}">{rule.severity}</b>' if fired else '<b class="good">quiet</b>'
        kind = rule.severity if fired else "quiet"
        lines.append(
            f'<tr class="{kind}"><td class="words">{state}</td>'
            f'<td class="words">{escape(rule.name)}<small>{escape(rule.says)}</small></td>'
            f'<td>{escape(figure(rule.limit, rule.unit))}</td><td class="words wide">{worst}{more}</td></tr>'
        )
    heads = ("State", "Rule", "Where it was worst")
    state, name, place = (f'<th scope="col" class="words">{head}</th>' for head in heads)
    head = f'<thead><tr>{state}{name}<th scope="col">Limit</th>{place}</tr></thead>'
    return f'<div class="table" tabindex="0"><table class="alerts">{head}<tbody>{"".join(lines)}</tbody></table></div>'


def _worst(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row["worst"])


def lagging(found: Findings) -> list[Row]:
    """The groups of streams that are further behind than they should be."""
    return [row for row in found.of("streams") if row["warning"]]


def _comparison(found: Findings) -> str:
    """An earlier period beside this one."""
    if found.earlier is None:
        return ""
    says = f"From {moment(found.earlier.first)} to {moment(found.earlier.until)} UTC, and as it is in this report."
    return _section("Before and now", says, table(COMPARED, found.of("compared")[:ROWS_SHOWN_MAX]))


def _listing(found: Findings, listing: TableSection) -> str:
    """A section with a table, if there is anything in it."""
    rows = found.of(listing.table)[:ROWS_SHOWN_MAX]
    return _section(listing.title, listing.says, table(listing.cells, rows) if rows else "")
