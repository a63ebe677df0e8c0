"""The forecast of a plan: growth by compound interest, and the month in which a limit is reached."""

import re

import pytest

from leveret.cli.pipeline import JOBS
from leveret.core.errors import InvalidArgument
from leveret.spark.forecast import LIMITS, MONTHS_MAX, checked_limits, forecast, limit_rows
from leveret.spark.plan import COSTS, PROTOCOLS, Workload, plan
from tests.sources import ROOT
from tests.test_docs import code, table

LOAD = Workload(1_000, 1_000, 1, backlog=1e6)
PAGE_LOAD = Workload(200, protocol="rest")


def cpu(load: Workload, **costs: float) -> float:
    (found,) = [row.value for row in plan(load, costs) if row.figure == "CPU at peak"]
    return found


def test_growth_is_compound() -> None:
    made = forecast(LOAD, 10, {})
    assert made.after(0)["publishes"].value == 1_000
    assert made.after(12)["publishes"].value == pytest.approx(1_000 * 1.1**12)
    assert made.after(12)["storage"].value == pytest.approx(made.after(0)["storage"].value * 1.1**12)


def test_a_limit_is_reached_when_the_need_exceeds_it() -> None:
    made = forecast(LOAD, 100, {})  # twice as much each month
    storage = made.after(0)["storage"].value
    assert made.reached("disk_bytes", storage * 8).months == pytest.approx(3)
    assert made.reached("disk_bytes", storage / 2).months == 0
    memory = made.reached("memory_bytes", made.after(5)["memory"].value).months
    assert memory == pytest.approx(5)


def test_of_the_cores_only_a_share_may_be_used() -> None:
    made = forecast(LOAD, 100, {"cpu_share_max": 0.5})
    assert made.reached("cores", 4 * made.after(0)["CPU at peak"].value).months == pytest.approx(1)


def test_a_limit_that_is_never_reached_says_so() -> None:
    reached = forecast(LOAD, 0.001, {}).reached("disk_bytes", 1e15)
    assert reached.months is None
    assert limit_rows([reached])[0]["reached"] == f"not within {MONTHS_MAX} months"


def test_growth_beyond_all_numbers_is_no_error() -> None:
    assert forecast(LOAD, 1_000, {}).after(MONTHS_MAX)["publishes"].value == 1e15


@pytest.mark.parametrize("growth", [0, -1, 1_001, float("nan"), float("inf")])
def test_what_is_no_growth_is_refused(growth: float) -> None:
    with pytest.raises(InvalidArgument, match="percent above 0"):
        forecast(LOAD, growth, {})


@pytest.mark.parametrize("value", [0, -1, 2e15, float("nan")])
@pytest.mark.parametrize("name", LIMITS)
def test_what_is_no_limit_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidArgument, match=name):
        checked_limits({name: value})


def test_a_protocol_has_its_own_cost() -> None:
    for name, fact in PROTOCOLS.items():
        assert cpu(Workload(1_000, 0, 1, protocol=name)) == pytest.approx(fact.value / 1_000)
    assert cpu(Workload(1_000, 0, 1, protocol="rest"), cpu_us=5) == pytest.approx(0.005)
    assert COSTS["cpu_us"] is PROTOCOLS["amqp"]
    with pytest.raises(InvalidArgument, match="give one of amqp, rest, sqs"):
        Workload(1, protocol="mqtt")


def test_the_command_offers_every_protocol_and_limit() -> None:
    (job,) = [each for each in JOBS if each.name == "plan"]
    options = {row.names[0]: row.options for row in job.arguments}
    assert options["--protocol"]["choices"] == tuple(PROTOCOLS)
    assert {f"--{name.replace('_', '-')}" for name in LIMITS} <= options.keys()


def test_the_costs_of_protocols_are_those_of_the_benchmarks() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    rest = re.search(r"send (\d+) us of CPU, take (\d+), acknowledge (\d+)", page)
    sqs = re.search(r"(\d+), (\d+) and (\d+) us of CPU each; .* moto", page)
    assert rest
    assert sqs
    assert sum(map(int, rest.groups())) == PROTOCOLS["rest"].value
    assert sum(map(int, sqs.groups())) == PROTOCOLS["sqs"].value


def test_the_page_about_capacity_has_protocols_and_the_forecast() -> None:
    costs = [[code(name), f"{fact.value:g} us", fact.about] for name, fact in PROTOCOLS.items()]
    assert table("capacity.md", "protocols") == costs
    made = forecast(PAGE_LOAD, 8, {})
    given = {"cores": 4.0, "disk_bytes": 2e12, "memory_bytes": 1e9}
    rows = limit_rows([made.reached(name, value) for name, value in given.items()])
    assert table("capacity.md", "forecast") == [list(row.values()) for row in rows]
