"""Progress of long work: one line on the standard error stream that is written over, and nothing without a terminal."""

import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from leveret.cli.units import in_short, in_time

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
        """So much more is done."""
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
