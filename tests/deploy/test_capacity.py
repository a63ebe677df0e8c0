"""The page about capacity says what the formulas give, and what other pages have measured."""

import math
import re

from leveret.cli.main import parser
from leveret.spark.commands.plan import bases
from leveret.spark.plan import Workload, plan, readable
from tests.sources import ROOT
from tests.test_docs import table

PAGE = ROOT / "docs" / "capacity.md"
WITH_STANDBY_PER_S = 78_400
SHARE_MAX = 0.6
RATES = (47_040, 100_000, 250_000, 500_000, 1_000_000)
FIGURE = re.compile(r"[\d,]+/s|[\d.]+ us")
LOAD = Workload(
    messages_per_s=1_000_000,
    body_bytes=200,
    peak_factor=1,
    queues=1000,
    processing_s=0.1,
    backlog=100_000_000,
    retention_days=1,
    deliveries=1,
)


def plan_rows() -> list[list[str]]:
    """The plan as the page has it."""
    given = bases(set(vars(LOAD)), observed_one=False)
    return [list(readable(figure).values()) for figure in plan(LOAD, bases=given)]


def group_rows() -> list[list[str]]:
    """Databases for some rates; only the first was ever seen."""
    counts = {rate: math.ceil(rate / (WITH_STANDBY_PER_S * SHARE_MAX)) for rate in RATES}
    return [[f"{rate:,}", str(n), "measured" if n == 1 else "extrapolated"] for rate, n in counts.items()]


def test_the_page_has_the_plan_of_its_command() -> None:
    assert table("capacity.md", "plan") == plan_rows()
    command = re.search(r"^    leveret (pipeline plan (?:.*\\\n)*.*)", PAGE.read_text(), re.MULTILINE)
    assert command
    words = command[1].replace("\\\n", " ").split()
    given = parser(words).parse_args(words)
    assert {name: getattr(given, name) for name in vars(LOAD)} == vars(LOAD)


def test_the_page_counts_databases_by_the_slowest_figure_with_a_standby() -> None:
    assert table("capacity.md", "groups") == group_rows()


def test_what_the_page_calls_measured_is_on_the_pages_that_it_names() -> None:
    section = PAGE.read_text().split("## What is measured")[1].split("\n## ")[0]
    figures = [figure for line in section.splitlines() if line.startswith("| ") for figure in FIGURE.findall(line)]
    told = "".join((ROOT / "docs" / page).read_text() for page in ("benchmarks.md", "postgresql.md", "cluster.md"))
    assert figures
    assert [figure for figure in figures if figure not in told] == []
