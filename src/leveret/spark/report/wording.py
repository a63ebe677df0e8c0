"""Figures for people: numbers, durations, shares and times as the page and the terminal write them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

NOTHING = "-"
LABEL_MAX = 28
"""Longer names of queues would push plots aside; the whole name is in the tooltip."""
_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_LARGE = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))
_CLOCKS = {"second": "%H:%M:%S", "minute": "%H:%M", "hour": "%d %b %H:%M", "day": "%d %b"}


def number(value: float | None) -> str:
    """A count or rate, in three digits or so."""
    if value is None:
        return NOTHING
    for size, letter in _LARGE:
        if abs(value) >= size:
            return f"{value / (1000 if letter == 'k' else size):.3g}{letter}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def duration(value_ms: float | None) -> str:
    """A time in milliseconds, in its natural unit."""
    if value_ms is None:
        return NOTHING
    for size, unit in _DURATIONS:
        if value_ms >= size:
            return f"{value_ms / size:.3g} {unit}"
    return f"{value_ms:.3g} ms"


def share(value: float | None) -> str:
    """A share in percent; never 100 % when something is missing."""
    if value is None:
        return NOTHING
    percent = value * 100
    return "100 %" if percent == 100 else f"{min(percent, 99.99):.4g} %" if percent > 99 else f"{percent:.3g} %"


def clock(moment: datetime, period: str) -> str:
    """A time on an axis with so long periods."""
    return moment.strftime(_CLOCKS[period])


def moment(value: datetime | None) -> str:
    """A time in a table."""
    return NOTHING if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


def label(row: dict[str, Any]) -> str:
    """The name of the queue of a row; its virtual host only if it is not the usual one."""
    vhost = row.get("vhost")
    name = str(row["queue"])
    return name if vhost in (None, "/") else f"{vhost}/{name}"


def short(text: str) -> str:
    """A name that fits beside a plot."""
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"


UNITS: dict[str, Callable[[float | None], str]] = {"ms": duration, "share": share}


def figure(value: float | None, unit: str) -> str:
    """A figure with its unit."""
    return UNITS[unit](value) if unit in UNITS else f"{number(value)} {unit}"
