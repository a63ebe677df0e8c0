"""Plots as SVG inside of a page: lines over time, stacked bars over time, ranges of percentiles, and shares.

Colours come from the style sheet of the page, so that plots are light or dark with it. Every plot has a title and a
description for those who do not see it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

from leveret.spark.wording import number

WIDTH, HEIGHT = 520, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 26
ROW_HEIGHT, LABEL_WIDTH, VALUE_WIDTH = 24, 170, 64
TICKS = 4
MARKS_MS = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000)
MARKS_MAX = 7
DOTS_MAX = 60
"""With more points than this a dot for each would only blur the line."""
BANDS_MAX = 720
"""What can be pointed at: with more periods, several are one."""


class PlotSeries(NamedTuple):
    """Values over time with a name; None where there is none."""

    name: str
    values: Sequence[float | None]


class PercentileRow(NamedTuple):
    """A row of percentiles."""

    label: str
    values: tuple[float, float, float]
    marked: bool = False


class ShareRow(NamedTuple):
    """A row with a share between 0 and 1."""

    label: str
    value: float


def lines(
    title: str,
    times: Sequence[str],
    series: Sequence[PlotSeries],
    shown: Callable[[float], str],
    *,
    whole: bool = False,
) -> str:
    """Lines over time, from zero; `whole` if there is nothing between two numbers."""
    highest = max((value for each in series for value in each.values if value is not None), default=0)
    top, ticks = scale(highest, 1.0 if whole else 0.0)
    parts = [_y_axis(top, ticks), _x_axis(times)]
    for index, each in enumerate(series):
        points = [
            (_x(place, len(times)), _y(value, top)) for place, value in enumerate(each.values) if value is not None
        ]
        parts.append(f'<polyline class="line c{index}" points="{_points(points)}"/>')
        if len(times) <= DOTS_MAX:
            parts += [_dot(x, y, f"c{index}") for x, y in points]
    parts += _bands(times, series, shown, [_x(place, len(times)) for place in range(len(times))])
    return _svg(title, _said(times, series, shown), HEIGHT, parts)


def stacks(title: str, times: Sequence[str], series: Sequence[PlotSeries], shown: Callable[[float], str]) -> str:
    """Bars over time, one series on top of the other."""
    sums = [sum(each.values[place] or 0 for each in series) for place in range(len(times))]
    top, ticks = scale(max(sums, default=0), 1.0)
    width = (WIDTH - LEFT - RIGHT) / max(len(times), 1)
    parts = [_y_axis(top, ticks), _x_axis(times, bars=True)]
    for place in range(len(times)):
        below = 0.0
        for index, each in enumerate(series):
            value = each.values[place] or 0
            if value:
                y = _y(below + value, top)
                parts.append(
                    f'<rect class="bar c{index}" x="{LEFT + place * width + width * 0.1:.1f}" y="{y:.1f}" '
                    f'width="{width * 0.8:.1f}" height="{_y(below, top) - y:.1f}"/>'
                )
            below += value
    parts += _bands(times, series, shown, [LEFT + (place + 0.5) * width for place in range(len(times))])
    return _svg(title, _said(times, series, shown), HEIGHT, parts)


def ranges(title: str, rows: Sequence[PercentileRow], shown: Callable[[float], str]) -> str:
    """A row for each of several: median, 95 % and 99 % of times in milliseconds, on a logarithmic scale."""
    highest = max((row.values[-1] for row in rows), default=1)
    last = next((place for place, mark in enumerate(MARKS_MS) if mark >= highest), len(MARKS_MS) - 1)
    marks = MARKS_MS[: max(last, 1) + 1]
    left, right, height = LABEL_WIDTH, WIDTH - VALUE_WIDTH, TOP + ROW_HEIGHT * len(rows) + BOTTOM

    def place(value: float) -> float:
        return left + (right - left) * min(1.0, math.log10(max(value, 1)) / math.log10(marks[-1]))

    parts = []
    for mark in marks[:: math.ceil(len(marks) / MARKS_MAX)]:
        x = place(mark)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(_text(x, height - 8, shown(mark), "middle"))
    for index, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * (index + 0.5)
        p50, p95, p99 = (place(value) for value in row.values)
        tip = "{}: median {:,.0f} ms, 95 % {:,.0f} ms, 99 % {:,.0f} ms".format(row.label, *row.values)
        parts.append(_text(left - 10, y + 4, row.label, "end", "label marked" if row.marked else "label"))
        parts.append(f'<line class="range" x1="{p50:.1f}" x2="{p99:.1f}" y1="{y}" y2="{y}"/>')
        parts += [_dot(x, y, f"c{kind}", 5) for kind, x in enumerate((p50, p95, p99))]
        parts.append(_text(WIDTH - 2, y + 4, shown(row.values[1]), "end"))
        parts.append(_band(0, TOP + ROW_HEIGHT * index, WIDTH, ROW_HEIGHT, tip))
    said = "; ".join(f"{row.label}: {', '.join(map(shown, row.values))}" for row in rows)
    return _svg(title, f"median, 95 and 99 percent. {said}", height, parts)


def misses(title: str, rows: Sequence[ShareRow], goal: float, shown: Callable[[float], str]) -> str:
    """A bar for each of several shares: what is missing to all of it, and a mark where the goal is."""
    left, right, height = LABEL_WIDTH, WIDTH - VALUE_WIDTH, TOP + ROW_HEIGHT * len(rows) + BOTTOM
    full = (right - left) / (max(2 * (1 - goal), *(1 - row.value for row in rows)) or 1)
    parts = []
    for index, row in enumerate(rows):
        y, missed = TOP + ROW_HEIGHT * index, 1 - row.value
        kind = "good" if row.value >= goal else "bad"
        parts.append(_text(left - 10, y + 16, row.label, "end", "label"))
        parts.append(f'<rect class="track" x="{left}" y="{y + 5}" width="{right - left}" height="14" rx="3"/>')
        parts.append(f'<rect class="{kind}" x="{left}" y="{y + 5}" width="{full * missed:.1f}" height="14" rx="3"/>')
        parts.append(_text(WIDTH - 2, y + 16, shown(missed), "end"))
        parts.append(_band(0, y, WIDTH, ROW_HEIGHT, f"{row.label}: {row.value * 100:.6g} % in time"))
    x = left + full * (1 - goal)
    parts.append(f'<line class="goal" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM + 4}"/>')
    parts.append(_text(x, height - 8, f"goal: up to {shown(1 - goal)}", "middle"))
    return _svg(title, "; ".join(f"{row.label}: {shown(row.value)}" for row in rows), height, parts)


def legend(names: Iterable[str]) -> str:
    """What the colours mean."""
    keys = (f'<li><i class="key k{index}"></i>{escape(name)}</li>' for index, name in enumerate(names))
    return f'<ul class="legend">{"".join(keys)}</ul>'


def scale(highest: float, step_min: float = 0.0) -> tuple[float, list[float]]:
    """The end of an axis from zero, and its ticks: round numbers."""
    if highest <= 0:
        return 1.0, [0.0, 1.0]
    rough = highest / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = max(step_min, next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough))
    ticks = [step * number for number in range(math.ceil(highest / step) + 1)]
    return ticks[-1], ticks


def _said(times: Sequence[str], series: Sequence[PlotSeries], shown: Callable[[float], str]) -> str:
    """A plot over time in words."""
    peaks = (
        f"{each.name} at most {shown(max((value for value in each.values if value is not None), default=0))}"
        for each in series
    )
    return f"{times[0]} to {times[-1]}: {'; '.join(peaks)}" if times else "nothing"


def _svg(title: str, described: str, height: float, parts: Iterable[str]) -> str:
    """A plot with what it says in words."""
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height:g}" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><desc>{escape(described)}</desc>{''.join(parts)}</svg>"
    )


def _bands(
    times: Sequence[str], series: Sequence[PlotSeries], shown: Callable[[float], str], middles: Sequence[float]
) -> list[str]:
    """What tells the figures of each period when it is pointed at; of several at once the highest ones."""
    together = math.ceil(len(times) / BANDS_MAX) or 1
    width = (WIDTH - LEFT - RIGHT) / max(len(times), 1)
    found = []
    for start in range(0, len(times), together):
        end = min(start + together, len(times))
        values = ((each.name, [value for value in each.values[start:end] if value is not None]) for each in series)
        several = end > start + 1
        says = ", ".join(f"{name} {'at most ' * several}{shown(max(known))}" for name, known in values if known)
        tip = f"{times[start]}{f' to {times[end - 1]}' if several else ''}: {says or 'nothing'}"
        left, right = max(LEFT, middles[start] - width / 2), min(WIDTH - RIGHT, middles[end - 1] + width / 2)
        found.append(_band(left, TOP, right - left, HEIGHT - TOP - BOTTOM, tip))
    return found


def _band(x: float, y: float, width: float, height: float, tip: str) -> str:
    """A part of a plot that says something when it is pointed at."""
    place = f'x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}"'
    return f'<rect class="band" {place}><title>{escape(tip)}</title></rect>'


def _y_axis(top: float, ticks: Sequence[float]) -> str:
    """Lines across, with their values."""
    return "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(tick, top):.1f}" y2="{_y(tick, top):.1f}"/>'
        + _text(LEFT - 6, _y(tick, top) + 4, number(tick), "end")
        for tick in ticks
    )


def _x_axis(times: Sequence[str], *, bars: bool = False) -> str:
    """Some of the times, so few that they do not touch."""
    longest = max((len(time) for time in times), default=1)
    room = max(2, int((WIDTH - LEFT - RIGHT) / (longest * 8 + 16)))
    every = max(1, math.ceil(len(times) / room))
    width = (WIDTH - LEFT - RIGHT) / max(len(times), 1)
    texts = []
    for place in range(0, len(times), every):
        x = LEFT + (place + 0.5) * width if bars else _x(place, len(times))
        texts.append(_text(x, HEIGHT - 8, times[place], "end" if x > WIDTH - RIGHT - longest * 4 else "middle"))
    return "".join(texts)


def _x(place: int, places: int) -> float:
    """Where a time is."""
    return LEFT + (WIDTH - LEFT - RIGHT) * (place / (places - 1) if places > 1 else 0.5)


def _y(value: float, top: float) -> float:
    """Where a value is."""
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _points(points: Iterable[tuple[float, float]]) -> str:
    """The corners of a line."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _dot(x: float, y: float, kind: str, radius: float = 2.5) -> str:
    """A point."""
    return f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    """Words in a plot."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
