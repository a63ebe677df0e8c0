"""The page, its plots and the lines for a terminal, without Spark."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from leveret.observability.alert_rules import RULES
from leveret.spark import wording
from leveret.spark.report import svg
from leveret.spark.report.comparison import COMPARED
from leveret.spark.report.findings import Findings
from leveret.spark.report.job import summary
from leveret.spark.report.page import full_in, page
from leveret.spark.report.period import span
from leveret.spark.report.service import Objective

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVIL = '<script>alert("x")</script>'
FIGURES = (
    "messages", "acked", "dead", "discarded",
    "redelivered_share", "error_share", "depth_end", "depth_max", "oldest_open_ms",
    "in_time_share", "waiting_p50_ms", "waiting_p95_ms", "waiting_p99_ms", "processing_p50_ms", "processing_p95_ms",
    "processing_p99_ms", "critical", "warnings", "available_share",
)  # fmt: skip


def queue(name: str, **figures: Any) -> dict[str, Any]:
    """The figures of a queue."""
    return {"vhost": "/", "queue": name, **dict.fromkeys(FIGURES), **figures}


def findings() -> Findings:
    """A report of three hours on two queues, one of them with a name that means harm."""
    covered = span(START, START + timedelta(hours=2, minutes=30), "hour")
    hours = covered.starts()
    waited = {"waiting_p50_ms": 5.0, "waiting_p95_ms": 2500.0, "waiting_p99_ms": 90_000.0}
    history = [
        {"vhost": "/", "queue": "orders", "period": hour, "depth_max": 10 + place, "depth_avg": 4.5}
        for place, hour in enumerate(hours)
    ]
    totals = [{"period": hours[1], "published": 7200, "acked": 3600, "failed": 0, "dead": 36}]
    rule = RULES[0]
    alert = {"rule": rule.name, "severity": rule.severity, "limit": rule.limit, "unit": rule.unit, "vhost": "/"}
    alert |= {"queue": EVIL, "worst": 12_345.0, "worst_at": hours[1], "periods": 1}
    priority = {"vhost": "/", "queue": "orders", **waited}
    added = (
        "messages", "published", "acked", "dead", "discarded", "taken", "redelivered", "judged", "in_time", "open",
        "failed",
    )  # fmt: skip
    orders = queue("orders", messages=5, acked=4, depth_max=12, in_time_share=0.75, **waited)
    return Findings(
        covered,
        Objective(2000, 0.9),
        2,
        {"queues": 2, **dict.fromkeys(added, 0), "messages": 12_345, "judged": 8, "in_time": 6},
        [orders, queue(EVIL, messages=1, warnings=1)],
        [orders],
        history,
        {
            "totals": totals,
            "alerts": [alert],
            "deaths": [{"period": hours[0], "reason": "rejected", "dead": 3}],
            "priorities": [{**priority, "priority": 0, "starved": True}, {**priority, "priority": 5, "starved": False}],
        },
        served={name: [orders] for name in ("waiting_p95_ms", "processing_p95_ms", "in_time_share")},
    )


class Balance(HTMLParser):
    """Notes elements that are not closed, and everything that would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href", "srcset")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing() -> None:
    text = page(findings())
    parser = Balance()
    parser.feed(text)
    assert (parser.open, parser.loaded) == ([], [])
    assert not re.search(r"https?:|url\(|@import", text)
    assert "script" not in parser.tags


def test_names_from_outside_stay_names() -> None:
    text = page(findings())
    assert EVIL not in text
    assert "&lt;script&gt;alert" in text


def test_every_rule_is_on_the_page_whether_it_fired_or_not() -> None:
    text = page(findings())
    assert all(rule.name in text for rule in RULES)
    assert text.count(">quiet<") == len(RULES) - 1
    assert "12,345 messages" in text


def test_critical_rules_come_first_and_look_different_from_warnings() -> None:
    critical = next(rule for rule in RULES if rule.severity == "critical")
    found = findings()
    (warning,) = found.of("alerts")
    both = [warning, {**warning, "rule": critical.name, "severity": "critical"}]
    text = page(replace(found, tables={**found.tables, "alerts": both}))
    states = re.findall(r'<b class="(\w+)">(\w+)</b>', text)
    assert states[:3] == [("critical", "critical"), ("warning", "warning"), ("good", "quiet")]
    style = text[text.index("<style>") : text.index("</style>")]
    colours = [set(re.findall(rf"--{name}: (#\w+)", style)) for name in ("critical", "warning", "good")]
    assert all(len(each) == 2 for each in colours)  # by day and by night
    assert len(set[str]().union(*colours)) == 6


def test_what_is_pointed_at_tells_exact_figures() -> None:
    text = page(findings())
    assert 'title="2,500 ms">2.5 s</td>' in text
    assert "<title>01 Jan 13:00: published 2, acknowledged 1, failed deliveries 0, dead letters 0.01</title>" in text
    assert "<title>01 Jan 14:00: most 12, average 4.5</title>" in text
    assert "<title>orders: median 5 ms, 95 % 2,500 ms, 99 % 90,000 ms</title>" in text
    assert "<title>orders: 75 % in time</title>" in text


def test_plots_of_many_periods_have_no_more_parts_than_can_be_pointed_at() -> None:
    times = [str(number) for number in range(2 * svg.BANDS_MAX + 1)]
    plot = svg.lines("t", times, [svg.PlotSeries("s", list(range(len(times))))], wording.exact)
    bands = re.findall(r"<title>([^<]*)</title></rect>", plot)
    assert len(bands) <= svg.BANDS_MAX
    assert bands[0] == "0 to 2: s at most 2"


def test_times_have_marks_in_the_units_of_people() -> None:
    plot = svg.ranges("t", [svg.PercentileRow("q", (1.0, 7_000_000.0, 30_000_000.0))], wording.duration)
    marks = re.findall(r'class="tick"[^>]*>([^<]*)<', plot)
    assert marks == ["1 ms", "100 ms", "10 s", "10 min", "10 h", "1.94 h"]


def test_queues_with_starved_priorities_come_first() -> None:
    (starved, other) = findings().of("priorities")
    rows = [
        {**each, "queue": name, "starved": name == "z" and each is starved}
        for name in "az"
        for each in (starved, other)
    ]
    text = page(replace(findings(), tables={"priorities": rows}))
    assert re.findall(r"<title>(\w · \d): median", text) == ["z · 5", "z · 0", "a · 5", "a · 0"]


@pytest.mark.parametrize(("hours", "text"), [(None, "-"), (0.0, "0 ms"), (48.0, "2 d"), (8_761.0, "over a year")])
def test_the_outlook_ends_in_a_year(hours: float | None, text: str) -> None:
    assert full_in(hours) == text


def test_an_earlier_period_stands_beside_this_one() -> None:
    figures = {f"{name}{suffix}": number for name in COMPARED for number, suffix in ((0.5, "_before"), (0.25, ""))}
    row = {"vhost": "/", "queue": "orders", **figures}
    covered = findings().span
    found = replace(findings(), tables={"compared": [row]}, earlier=covered)
    text = page(found)
    assert "From 2026-01-01 12:00:00 to 2026-01-01 14:30:00 UTC" in text
    assert "<td>50 % → 25 %</td>" in text
    assert "Before and now" not in page(findings())


def test_streams_have_their_lag_and_warn_of_it() -> None:
    rows = [{"stream": "clicks", "records": 5_000, "group": "billing", "lag": 1_001, "warning": True}]
    found = replace(findings(), tables={"streams": rows})
    text = page(found)
    assert '<tr class="warning"><td class="words">clicks</td>' in text
    assert "1,001</td>" in text
    assert "clicks, group billing: 1,001 records now" in text
    assert "<dt>Warnings that fired</dt><dd>1</dd>" in text
    assert summary(found).splitlines()[-1] == (
        "WARNING stream_lag: clicks, group billing 1,001 records (limit 1,000 records) now"
    )


def test_a_page_tells_how_long_confirms_take() -> None:
    row = {"commits": 1_200, "p50_ms": 0.512, "p95_ms": 4.096, "p99_ms": 65.536}
    text = page(replace(findings(), tables={"commits": [row]}))
    assert "Of 1,200 commits since the server was started, 95 % were durable within 4.1 ms" in text
    assert "Confirms</h2>" not in page(findings())


def test_every_plot_tells_those_who_do_not_see_it() -> None:
    plots = re.findall(r"<svg.*?</svg>", page(findings()))
    assert len(plots) >= 5
    for plot in plots:
        tree = ElementTree.fromstring(plot)
        assert tree.get("role") == "img"
        assert tree.get("aria-label") == tree.findtext("title") != ""
        assert tree.findtext("desc")


def test_sections_without_anything_to_show_are_left_out() -> None:
    text = page(replace(findings(), tables={}, queues=[], deepest=[], history=[]))
    assert "Consumers" not in text
    assert "Depth</h2>" not in text


def test_the_terminal_gets_a_table_and_the_alerts() -> None:
    lines = summary(findings()).splitlines()
    assert lines[0].startswith("2026-01-01 12:00:00 to 2026-01-01 14:30:00 UTC: 12,345 messages in 2 queues")
    assert lines[2].split()[:3] == ["Queue", "Alerts", "Messages"]
    assert lines[-1].startswith(f"WARNING queue_depth: {EVIL} 12,345 messages (limit 10,000 messages)")


def test_lines_stay_inside_of_the_plot() -> None:
    plot = ElementTree.fromstring(
        svg.lines("t", ["a", "b", "c"], [svg.PlotSeries("s", [0, None, 7.5])], wording.number)
    )
    points = next(element for element in plot if element.tag == "polyline").get("points") or ""
    found = [tuple(map(float, point.split(","))) for point in points.split()]
    assert len(found) == 2
    assert all(svg.LEFT <= x <= svg.WIDTH and svg.TOP <= y <= svg.HEIGHT - svg.BOTTOM for x, y in found)


@pytest.mark.parametrize(
    ("highest", "ticks"), [(0, [0, 1]), (1, [0, 1]), (7, [0, 2, 4, 6, 8]), (110, [0, 50, 100, 150])]
)
def test_axes_of_counts_end_at_round_numbers(highest: float, ticks: list[float]) -> None:
    assert svg.scale(highest, 1.0)[1] == ticks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wording.number(None), "-"),
        (wording.number(0.125), "0.125"),
        (wording.number(1234), "1,234"),
        (wording.number(1_234_567), "1.23M"),
        (wording.number(999_600), "1M"),
        (wording.number(999_600_000_000), "1T"),
        (wording.number(9_999.6), "10k"),
        (wording.number(0.00001), "< 0.001"),
        (wording.exact(999_600), "999,600"),
        (wording.exact(0.12345), "0.123"),
        (wording.duration(999.7), "1 s"),
        (wording.duration(59_990), "1 min"),
        (wording.duration(2e12), "23,148 d"),
        (wording.share(0.000001), "< 0.001 %"),
        (wording.duration(0.5), "0.5 ms"),
        (wording.volume(14_200_000), "14.2 MB"),
        (wording.volume(950), "950 B"),
        (wording.volume(None), "-"),
        (wording.duration(90_000), "1.5 min"),
        (wording.share(1.0), "100 %"),
        (wording.share(0.99999), "99.99 %"),
        (wording.label({"vhost": "shop", "queue": "orders"}), "shop/orders"),
        (wording.short("q" * 100), "q" * (wording.LABEL_MAX - 1) + "…"),
    ],
)
def test_figures_for_people(text: str, expected: str) -> None:
    assert text == expected
