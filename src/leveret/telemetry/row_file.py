"""Rows that the next process reads: one JSON object in a line, in a file of bounded size.

When the file is full it becomes `NAME.1.jsonl`, in place of the one before, and a new one is begun.
"""

import json
import os
from collections.abc import Iterable
from typing import Any

from leveret.telemetry.logs import Log

FILE_BYTES_MAX = 8 << 20
ENDS = (".1.jsonl", ".jsonl")  # the older file, and the one that is written to

Row = dict[str, Any]


class RowFile:
    """The rows of one kind in a directory; without one they are kept nowhere."""

    def __init__(self, directory: str | None, name: str, log: Log, bytes_max: int = FILE_BYTES_MAX) -> None:
        """`log` is told when the disk takes nothing."""
        self._log = log
        self._bytes_max = bytes_max
        self._names = () if directory is None else tuple(os.path.join(directory, name + end) for end in ENDS)

    def append(self, rows: Iterable[Row]) -> None:
        """Write rows together. A disk that takes none is told in the log: what they tell of must not fail for it."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        if not self._names or not text:
            return
        older, newest = self._names
        try:
            if os.path.exists(newest) and os.path.getsize(newest) + len(text) > self._bytes_max:
                os.replace(newest, older)
            with open(os.open(newest, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
                file.write(text)
        except OSError as error:
            self._log.error("rows not written", file=newest, reason=error)

    def read(self, limit: int) -> list[Row]:
        """The last rows, the oldest first; a line that was cut by a crash is left out."""
        found: list[Row] = []
        for name in self._names:
            try:
                with open(name, errors="replace") as file:
                    found += [row for line in file if (row := _row(line)) is not None]
            except FileNotFoundError:
                continue
        return found[-limit:]


def _row(line: str) -> Row | None:
    """What a line says, if it can be read."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
