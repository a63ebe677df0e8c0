"""The plots of a report, each with the sentence above it."""

from collections.abc import Iterator
from html import escape

from leveret.spark.report import svg
from leveret.spark.report.findings import Findings, Row
from leveret.spark.report.service import percentile_names
from leveret.spark.wording import clock, duration, exact, label, share, short

RANGES_SHOWN_MAX = 12
PERCENTILES = ("median", "95 %", "99 %")
TIMES = "From when a message could be taken to its first delivery, and in consumers' hands: the slowest queues first."
SERVICE = (
    "The queues that are furthest from the goal first. Messages that are still in time do not count. Priorities that "
    "wait far longer than the highest one of their queue are starved, and marked."
)
TRAFFIC = {"published": "published", "acked": "acknowledged", "failed": "failed deliveries", "dead": "dead letters"}


def plots(found: Findings) -> Iterator[tuple[str, str, str]]:
    """Heading, sentence and content of every section; no content if there is nothing to show."""
    yield "Traffic", "All queues together.", _figures([_traffic(found), _deaths(found)])
    yield "Depth", "Messages in the queues that were deepest, waiting or unacked.", _figures(_depths(found))
    times = [_times(found, "waiting_ms", "Waiting"), _times(found, "processing_ms", "Processing")]
    yield "Times", TIMES, _figures(times)
    yield "Service", SERVICE, _figures([_compliance(found), _priorities(found)])


def _figures(plots: list[str]) -> str:
    """Plots beside each other."""
    drawn = [plot for plot in plots if plot]
    return f'<div class="plots">{"".join(drawn)}</div>' if drawn else ""


def _figure(title: str, plot: str, names: tuple[str, ...] = ()) -> str:
    """A plot with its heading and what the colours mean."""
    return f"<figure><h3>{escape(title)}</h3>{svg.legend(names) if names else ''}{plot}</figure>"


def _clocks(found: Findings) -> list[str]:
    """The times of all periods."""
    return [clock(start, found.span.period) for start in found.span.starts()]


def _traffic(found: Findings) -> str:
    """What happened in all queues."""
    series = [
        svg.PlotSeries(
            name, [(value or 0) / found.span.seconds for value in found.over_time(found.of("totals"), figure)]
        )
        for figure, name in TRAFFIC.items()
    ]
    plot = svg.lines("Traffic in messages per second", _clocks(found), series, exact)
    return _figure("Messages per second", plot, tuple(TRAFFIC.values()))


def _depths(found: Findings) -> list[str]:
    """How full the deepest queues were, each in its own plot."""
    return [_depth(found, row) for row in found.deepest if row["depth_max"]]


def _depth(found: Findings, queue: Row) -> str:
    """How full one queue was."""
    rows = [row for row in found.history if (row["vhost"], row["queue"]) == (queue["vhost"], queue["queue"])]
    names = {"depth_max": "most", "depth_avg": "average"}
    series = [svg.PlotSeries(name, found.over_time(rows, figure)) for figure, name in names.items()]
    if series[0].values == series[1].values:
        series = series[:1]
    plot = svg.lines(f"Messages in {label(queue)}", _clocks(found), series, exact, whole=True)
    return _figure(f"{label(queue)}, messages", plot, tuple(each.name for each in series) if series[1:] else ())


def _times(found: Findings, figure: str, title: str) -> str:
    """The percentiles of a time, by queue."""
    _, p95, _ = percentile_names(figure)
    ranges = [each for row in found.served.get(p95, ()) if (each := _range(short(label(row)), row, figure))]
    if not ranges:
        return ""
    plot = svg.ranges(f"{title} by queue", ranges, duration)
    return _figure(f"{title} (95 % at the right)", plot, PERCENTILES)


def _range(name: str, row: Row, figure: str, *, marked: bool = False) -> svg.PercentileRow | None:
    """The percentiles of a row; None if it has none."""
    p50, p95, p99 = (row[each] for each in percentile_names(figure))
    return None if p50 is None else svg.PercentileRow(name, (p50, p95, p99), marked)


def _compliance(found: Findings) -> str:
    """Which share was done in time, by queue."""
    rows = [svg.ShareRow(short(label(row)), row["in_time_share"]) for row in found.served.get("in_time_share", ())]
    if not rows:
        return ""
    plot = svg.misses("Share of messages that were acknowledged in time", rows, found.objective.share, share)
    return _figure(f"Not acknowledged within {duration(found.objective.within_ms)}", plot)


def _deaths(found: Findings) -> str:
    """Dead letters over time, by reason."""
    dead = found.of("deaths")
    reasons = sorted({row["reason"] for row in dead})
    if not reasons:
        return ""
    series = [
        svg.PlotSeries(reason, found.over_time([row for row in dead if row["reason"] == reason], "dead"))
        for reason in reasons
    ]
    plot = svg.stacks("Dead letters by reason", _clocks(found), series, exact)
    return _figure(f"Messages that died in each {found.span.period}", plot, tuple(reasons))


def _priorities(found: Findings) -> str:
    """Waiting by priority, of queues that have several."""
    rows = found.of("priorities")
    several = {label(row) for row in rows if row["priority"] > 0}
    calm = several - {label(row) for row in rows if row["starved"]}
    ranges = [
        each
        for row in sorted(rows, key=lambda row: (label(row) in calm, label(row), -row["priority"]))
        if label(row) in several
        and (each := _range(f"{short(label(row))} · {row['priority']}", row, "waiting_ms", marked=row["starved"]))
    ]
    if not ranges:
        return ""
    return _figure(
        "Waiting, by queue and priority", svg.ranges("Waiting", ranges[: 2 * RANGES_SHOWN_MAX], duration), PERCENTILES
    )
