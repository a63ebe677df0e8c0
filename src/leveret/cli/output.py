"""What commands print: tables and short numbers for people, JSON for programs, and the progress of long work."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TextIO

GAP = "  "
CUT = "…"
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def as_json(value: object) -> str:
    """The result of a verb as JSON; times as ISO 8601 has them."""
    return json.dumps(value, indent=2, default=datetime.isoformat)


def as_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows under a line of names, aligned; a column `limits.x` is x of the limits."""
    lines = [[column.rpartition(".")[2] for column in columns]]
    lines += [[cell(_value(row, column)) for column in columns] for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_list(facts: Mapping[str, Any]) -> str:
    """One fact in each line."""
    return as_table([{"": name, "value": value} for name, value in facts.items()], ["", "value"]).split("\n", 1)[1]


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows; a terminal gets no longer lines than it has room for."""
    text = as_table(rows, columns)
    print(for_terminal(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text, flush=True)


def for_terminal(table: str, columns: int) -> str:
    """A table as a terminal of so many columns shows it."""
    first, *rest = (line if len(line) <= columns else line[: columns - 1] + CUT for line in table.split("\n"))
    return "\n".join([f"{BOLD}{first}{PLAIN}" if is_coloured(sys.stdout) else first, *rest])


def is_coloured(stream: TextIO) -> bool:
    """Whether letters may be bold there."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def cell(value: object) -> str:
    """A value on one line. Names come from clients: nothing in them may move the cursor of a terminal."""
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, list):
        return ",".join(cell(each) for each in value)
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _value(row: Mapping[str, Any], column: str) -> object:
    """A cell by the name of its column."""
    outer, dot, inner = column.partition(".")
    return row[outer].get(inner) if dot else row[outer]


STEP = 1024
BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
COUNTS = ("", "k", "M", "G", "T", "P")
TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def in_bytes(number: float) -> str:
    """A number of bytes."""
    return _scaled(number, STEP, BYTES, " ")


def in_short(number: float) -> str:
    """A count or a rate."""
    return _scaled(number, 1000, COUNTS, "")


def in_time(seconds: float) -> str:
    """A length of time, in the largest unit of which there is one."""
    for size, unit in TIMES:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0) * 1000:.0f} ms"


def _scaled(number: float, step: int, units: tuple[str, ...], gap: str) -> str:
    """Three digits, and how large they are."""
    index = 0
    while number >= step and index < len(units) - 1:
        number /= step
        index += 1
    digits = 0 if number >= 100 or (index == 0 and (number >= 10 or number == int(number))) else 1
    return f"{number:.{digits}f}{gap}{units[index]}"


BAR = 24
REDRAW_S = 0.1
CLEAR = "\r\x1b[K"


def line_of(what: str, done: int, total: int | None, elapsed_s: float, shown: Callable[[float], str]) -> str:
    """How far it is, how fast, and how long it will take."""
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    speed = f"{shown(rate)}/s"
    if not total:
        return f"{what}  {shown(done)}  {speed}"
    share = min(done / total, 1.0)
    bar = ("#" * round(BAR * share)).ljust(BAR, ".")
    left = in_time((total - done) / rate) if rate and done < total else ""
    return f"{what}  [{bar}] {share:4.0%}  {shown(done)} of {shown(total)}  {speed}  {left}".rstrip()


class ProgressLine:
    """Counts, and draws at most ten times in a second."""

    def __init__(
        self,
        what: str,
        total: int | None = None,
        shown: Callable[[float], str] = in_short,
        stream: TextIO | None = None,
    ) -> None:
        """Begin; `shown` writes numbers."""
        self.done = 0
        self._what, self.total, self._shown = what, total, shown
        self._stream = stream or sys.stderr
        self._drawn = self._stream.isatty()
        self._began_s = self._last_s = time.monotonic()

    def add(self, count: int) -> None:
        self.done += count
        now_s = time.monotonic()
        if self._drawn and now_s - self._last_s >= REDRAW_S:
            self._last_s = now_s
            line = line_of(self._what, self.done, self.total, now_s - self._began_s, self._shown)
            self._stream.write(CLEAR + line[: shutil.get_terminal_size().columns - 1])
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._stream.write(CLEAR)
            self._stream.flush()
