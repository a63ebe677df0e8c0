"""One line on a terminal that says what a job is doing and how far Spark is; nothing when there is no terminal.

Of a streaming query, how much it has yet to read.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import SourceProgress

INTERVAL_S = 0.5
BAR_CHARS = 24
CLEAR = "\r\x1b[K"


class Status:
    """The line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._text = ""
        self._stop = threading.Event()

    def tell(self, text: str) -> None:
        """Say what is done now."""
        self._text = text
        self._draw("")

    def share(self, done: int, whole: int) -> None:
        """Say how much of it is done."""
        self.tell(f"{bar(done, whole)} {done:,} of {whole:,} messages")

    @contextmanager
    def watch(self, spark: SparkSession) -> Iterator[None]:
        """Show the tasks of a session; the line is gone afterwards."""
        if not self._shown:
            yield
            return
        watcher = threading.Thread(target=self._watch, args=(spark,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._stop.set()
            watcher.join()
            self._stream.write(CLEAR)
            self._stream.flush()

    def _watch(self, spark: SparkSession) -> None:
        """Draw the line again and again."""
        while not self._stop.wait(INTERVAL_S):
            self._draw(tasks(spark))

    def _draw(self, more: str) -> None:
        """Write the line over itself."""
        if self._shown:
            self._stream.write(f"{CLEAR}{self._text} {more}".rstrip()[:120])
            self._stream.flush()


def tasks(spark: SparkSession) -> str:
    """How many tasks of the running stages are done; a remote session does not tell."""
    if not hasattr(spark, "_jsc"):
        return ""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    whole = sum(stage.numTasks for stage in stages if stage is not None)
    return f"{bar(done, whole)} {done} of {whole} tasks" if whole else ""


def bar(done: int, whole: int) -> str:
    """A share as a bar."""
    full = BAR_CHARS * done // max(1, whole)
    return f"[{'=' * full}{' ' * (BAR_CHARS - full)}]"


def lag(source: SourceProgress) -> int | None:
    """How many records of streams, or messages of a queue, one of `progress.sources` has yet to read, if it tells."""
    end, latest = (json.loads(text or "{}") for text in (source.endOffset, source.latestOffset))
    if not end or not latest:
        return None
    if "waiting" in latest:
        return int(latest["waiting"])
    done = _offsets(end)
    return sum(max(0, offset - done.get(place, 0)) for place, offset in _offsets(latest).items())


def _offsets(told: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Offsets of one stream or several by stream and partition (see stream_query.py)."""
    named = told if all(isinstance(value, dict) for value in told.values()) else {"": told}
    return {(stream, name): offset for stream, at in named.items() for name, offset in at.items() if name != "id"}
