"""Forecast: what a workload that grows every month needs, and when it reaches a limit.

Growth is compound: publishes and backlog are multiplied by the same factor each month, everything else stays.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from leveret.core.errors import InvalidArgument
from leveret.spark.plan import COSTS, NUMBER_MAX, PlanFigure, Workload, plan, readable

MONTHS = (0, 3, 6, 12, 24, 36)
MONTHS_MAX = 1_200
"""A limit that is not reached in a century is not reached."""
GROWTH_PERCENT_MAX = 1_000.0
STEPS = 60  # of the bisection: far below a minute
SHOWN = ("publishes at peak", "CPU at peak", "storage", "memory", "brokers")


class Limit(NamedTuple):
    """A limit on a figure of a plan."""

    figure: str
    help: str
    cost: str | None = None
    """The cost that says which share of it may be used."""


LIMITS: dict[str, Limit] = {
    "cores": Limit("CPU at peak", "cores of all brokers", "cpu_share_max"),
    "disk_bytes": Limit("storage", "bytes of disk for one copy of the log"),
    "memory_bytes": Limit("memory", "bytes of memory of all brokers"),
}


class Reached(NamedTuple):
    """When a figure exceeds a limit; `months` is None when growth does not lead there."""

    limit: str
    value: float
    figure: str
    months: float | None


class Forecast(NamedTuple):
    """A workload that grows."""

    load: Workload
    growth_percent: float
    costs: Mapping[str, float]

    def after(self, months: float) -> dict[str, PlanFigure]:
        """The figures of the plan after some months, by name."""
        factor = math.exp(min(700.0, months * math.log1p(self.growth_percent / 100)))
        grown = replace(
            self.load,
            messages_per_s=min(NUMBER_MAX, self.load.messages_per_s * factor),
            backlog=min(NUMBER_MAX, self.load.backlog * factor),
        )
        return {figure.figure: figure for figure in plan(grown, self.costs)}

    def reached(self, name: str, value: float) -> Reached:
        """When a limit is reached."""
        limit = LIMITS[name]
        share = 1.0 if limit.cost is None else self.costs.get(limit.cost, COSTS[limit.cost].value)

        def exceeded(months: float) -> bool:
            return self.after(months)[limit.figure].value > value * share

        if not exceeded(MONTHS_MAX):
            return Reached(name, value, limit.figure, None)
        low, high = 0.0, float(MONTHS_MAX)
        for _ in range(STEPS if not exceeded(0) else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if exceeded(middle) else (middle, high)
        return Reached(name, value, limit.figure, 0.0 if exceeded(0) else high)


def forecast(load: Workload, growth_percent: float, costs: Mapping[str, float]) -> Forecast:
    """A forecast; refuses growth that is none."""
    if not (math.isfinite(growth_percent) and 0 < growth_percent <= GROWTH_PERCENT_MAX):
        raise InvalidArgument(
            f"growth_per_month={growth_percent!r}: give a number of percent above 0, up to {GROWTH_PERCENT_MAX:.0f}"
        )
    return Forecast(load, growth_percent, costs)


def checked_limits(given: Mapping[str, float | None]) -> dict[str, float]:
    """The limits that are given."""
    limits = {name: value for name, value in given.items() if value is not None}
    for name, value in limits.items():
        if not (math.isfinite(value) and 0 < value <= NUMBER_MAX):
            raise InvalidArgument(f"{name}={value!r}: give a number above 0, up to {NUMBER_MAX:g}")
    return limits


def month_rows(made: Forecast) -> list[dict[str, str]]:
    """A row for each month, for people."""
    rows = []
    for months in MONTHS:
        figures = made.after(months)
        rows.append({"months": str(months), **{name: readable(figures[name])["value"] for name in SHOWN}})
    return rows


def limit_rows(reached: list[Reached]) -> list[dict[str, str]]:
    """A row for each limit, for people."""
    return [{"limit": each.limit, "figure": each.figure, "reached": _when(each.months)} for each in reached]


def _when(months: float | None) -> str:
    if months is None:
        return f"not within {MONTHS_MAX} months"
    return f"after {months:.1f} months" if months else "now"


def as_facts(made: Forecast, reached: list[Reached]) -> dict[str, Any]:
    """A forecast for programs."""
    return {
        "growth_percent_per_month": made.growth_percent,
        "months": [{"months": months, **{name: made.after(months)[name].value for name in SHOWN}} for months in MONTHS],
        "limits": [each._asdict() for each in reached],
    }
