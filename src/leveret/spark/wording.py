"""Figures for people: numbers, durations, shares and times as pages and terminals write them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

NOTHING = "-"
LABEL_MAX = 28
"""Longer names of queues would push plots aside; the whole name is in the tooltip."""
_DURATIONS = ((86_400_000, " d"), (3_600_000, " h"), (60_000, " min"), (1000, " s"), (1, " ms"))
_LARGE = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10_000, "k"))
_LEAST = 0.001
"""Less is not written out."""
_CLOCKS = {"second": "%H:%M:%S", "minute": "%H:%M", "hour": "%d %b %H:%M", "day": "%d %b"}


def digits(value: float) -> str:
    """A number in three digits, or all of those before the point; never with an exponent."""
    if 0 < abs(value) < _LEAST:
        return f"< {_LEAST}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def three(value: float) -> float:
    """A number of three digits: what is rounded up to the next unit is written in it."""
    return float(f"{value:.3g}")


def number(value: float | None) -> str:
    """A count or rate, in three digits or so: for an axis, where there is no room."""
    if value is None:
        return NOTHING
    for size, letter in _LARGE:
        if abs(three(value)) >= size:
            return f"{digits(three(value) / (1000 if letter == 'k' else size))}{letter}"
    return exact(value)


def volume(value: float | None) -> str:
    """Bytes, in three digits or so."""
    text = number(value)
    return text if value is None else f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def exact(value: float | None) -> str:
    """A count with all of its digits, or a rate in three."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value == int(value) else digits(value)


def duration(value_ms: float | None) -> str:
    """A time in milliseconds, in its natural unit."""
    if value_ms is None:
        return NOTHING
    size, unit = next((each for each in _DURATIONS if three(value_ms) >= each[0]), _DURATIONS[-1])
    return digits(three(value_ms) / size) + unit


def share(value: float | None) -> str:
    """A share in percent; never 100 % when something is missing."""
    if value is None:
        return NOTHING
    percent = value * 100
    return "100 %" if percent == 100 else f"{min(percent, 99.99):.4g} %" if percent > 99 else f"{digits(percent)} %"


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


def completeness(told: list[dict[str, Any]]) -> str:
    """From when on history is complete, and whether it has what the broker counted."""
    row: dict[str, Any] = told[0] if told else {"figures": 0, "gone_segments": 0}
    begins = "No segment of history was removed before it was read. "
    if row["gone_segments"]:
        since = moment(row["history_since"])
        begins = f"History is complete from {since} UTC on: {row['gone_segments']:,} segments before were removed. "
    if not row["figures"]:
        return f"{begins}The broker noted no counters that this history could be compared with."
    lost = f", and {row['lost']:,} events were dropped" if row["lost"] else ""
    return begins + (
        f"{row['figures']:,} counters of queues from {moment(row['since'])} to {moment(row['until'])} UTC were "
        f"compared with the events of history: {row['differences']:,} differ{lost}."
    )


UNITS: dict[str, Callable[[float | None], str]] = {"ms": duration, "share": share, "count": exact, "text": str}
EXACT: dict[str, Callable[[float], str]] = {
    "ms": lambda value: f"{value:,.0f} ms",
    "share": lambda value: f"{value * 100:.6g} %",
    "count": lambda value: f"{value:,.6g}" if value != int(value) else "",
    "text": lambda value: "",
}
"""What a figure is when it is pointed at, where that is more than what is written."""


def figure(value: float | None, unit: str) -> str:
    """A figure with its unit."""
    return UNITS[unit](value) if unit in UNITS else f"{exact(value)} {unit}"
