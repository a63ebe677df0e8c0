"""Capacity: the estimates that people make by hand, and a workload that is observed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from leveret.core.errors import InvalidArgument
from leveret.spark.columns import spark_schema
from leveret.spark.events import EVENTS
from leveret.spark.plan import COSTS, PEAK_S, Bases, PlanFigure, Workload, observed, plan, readable
from tests.spark.history import at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# 10 M messages of 10 KB in an hour, three times as many at the peak, processed in 5 s, kept for 7 days.
SEED = Workload(10e6 / 3600, 10_000, 3, processing_s=5, retention_days=7)
BARE = {"journal_bytes": 0.0, "broker_bytes": 0.0, "queue_bytes": 0.0}


def figures(load: Workload, **costs: float) -> dict[str, float]:
    return {row.figure: row.value for row in plan(load, costs)}


def test_a_plan_gives_the_figures_of_an_estimate_by_hand() -> None:
    found = figures(SEED, **BARE)
    assert found["publishes"] == pytest.approx(2_778, rel=0.01)
    assert found["publishes at peak"] == pytest.approx(8_333, rel=0.01)
    assert found["messages"] == pytest.approx(240e6)
    assert found["log"] == pytest.approx(2.4e12)
    assert found["storage"] == pytest.approx(16.8e12)
    assert found["messages in flight"] == pytest.approx(41_667, rel=0.01)
    assert found["memory"] == pytest.approx(4.2e9, rel=0.01)
    assert found["bandwidth in"] + found["bandwidth out"] == pytest.approx(3 * 56e6, rel=0.01)


def test_petabytes_need_many_brokers() -> None:
    found = figures(Workload(1e6, 10_000, 1, queues=100_000, retention_days=14), **BARE)
    assert found["storage"] == pytest.approx(12.1e15, rel=0.01)
    assert found["brokers"] > 20
    assert found["shards"] == 20


def test_what_is_scarce_decides_how_many_brokers() -> None:
    small = Workload(2e6, 16, 1)
    (by_cpu,) = [row for row in plan(small) if row.figure == "brokers"]
    (by_network,) = [row for row in plan(small, {"network_bytes_per_s": 1e6}) if row.figure == "brokers"]
    assert by_cpu.how.startswith("CPU")
    assert by_network.how.startswith("network")
    assert by_network.value > by_cpu.value >= 2


def test_more_of_anything_never_needs_less() -> None:
    before = figures(SEED)
    for more in ({"messages_per_s": 1e6}, {"body_bytes": 1e6}, {"queues": 1000}, {"backlog": 1e9}, {"deliveries": 5.0}):
        after = figures(replace(SEED, **more))
        assert all(after[name] >= value for name, value in before.items()), more


def test_every_cost_says_where_it_comes_from() -> None:
    assert {fact.basis for fact in COSTS.values()} == {"measured", "assumed"}
    assert {row.basis for row in plan(SEED)} == {"measured", "assumed", "given"}


def test_a_figure_rests_on_the_weakest_of_its_facts() -> None:
    bases = Bases({"messages_per_s": "observed", "peak_factor": "assumed"})
    found = {row.figure: row.basis for row in plan(SEED, None, bases)}
    assert (found["publishes"], found["publishes at peak"]) == ("observed", "assumed")


@pytest.mark.parametrize("wrong", [{"messages_per_s": -1}, {"peak_factor": 0.5}, {"body_bytes": float("nan")}])
def test_numbers_that_are_no_workload_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        replace(SEED, **wrong)  # type: ignore[arg-type]


def test_unknown_costs_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="cpu_us"):
        plan(SEED, {"cpu": 1})


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(16.8e12, "B", "16.8 TB"), (12_096e12, "B", "12.1 PB"), (0.16, "cores", "0.16 cores"), (2800, "/s", "2.8 k/s")],
)
def test_figures_are_readable(value: float, unit: str, text: str) -> None:
    assert readable(PlanFigure("", value, unit, "", ""))["value"] == text


def test_an_observed_workload_is_that_of_its_publishes(spark: SparkSession) -> None:
    """A queue is declared long before; half of the messages come in one burst, and half are never settled."""
    moments = [*(number / 20 for number in range(1_000)), *(60 + number / 1_000 for number in range(999)), 100.0]
    rows: list[dict[str, Any]] = [{"event": "defined", "at": at(-3600), "reason": "queue"}]
    for seq, moment in enumerate(moments):
        rows.append({"event": "published", "at": at(moment), "queue_id": 1, "seq": seq, "bytes": 10})
        if seq < 1_000:
            held = {"deliveries": 1, "held_ms": 5000} if seq % 2 else {"deliveries": 0, "held_ms": 0}
            rows.append({"event": "settled", "at": at(300), "queue_id": 1, "seq": seq, "reason": "acked", **held})
    told = [tuple((dict.fromkeys(EVENTS) | row).values()) for row in rows]
    load = observed(spark.createDataFrame(told, spark_schema(EVENTS)).coalesce(1))
    assert load.messages_per_s == pytest.approx(2_000 / 100)
    assert load.messages_per_s * load.peak_factor == pytest.approx(999 / PEAK_S)
    assert load.processing_s == 5
    assert load.backlog == 2_000
