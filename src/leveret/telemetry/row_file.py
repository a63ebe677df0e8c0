"""Rows that the next process reads: one JSON object in a line, in a file of bounded size.

When the file is full it becomes `NAME.1.jsonl`, in place of the one before, and a new one is begun.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from leveret.telemetry.logs import Log

FILE_BYTES_MAX = 8 << 20
CHUNK_BYTES = 65_536  # written at once
ROW_BYTES = 4_096  # that are read for each of the last rows: few have more
ENDS = (".1.jsonl", ".jsonl")  # the older file, and the one that is written to

Row = dict[str, Any]


class RowFile:
    """The rows of one kind in a directory; without one they are kept nowhere."""

    def __init__(self, directory: str | None, name: str, log: Log, bytes_max: int = FILE_BYTES_MAX) -> None:
        """`log` is told when the disk takes nothing."""
        self._log = log
        self._bytes_max = bytes_max
        self._names = () if directory is None else tuple(os.path.join(directory, name + end) for end in ENDS)
        self._unsynced: set[str] = set()

    def append(self, rows: Iterable[Row]) -> None:
        """Write rows together. A disk that takes none is told in the log: what they tell of must not fail for it."""
        if not self._names:
            return
        for chunk in _chunks(rows, min(CHUNK_BYTES, self._bytes_max)):
            self._write(chunk)

    def _write(self, text: bytes) -> None:
        older, newest = self._names
        try:
            if os.path.exists(newest) and os.path.getsize(newest) + len(text) > self._bytes_max:
                os.replace(newest, older)
                self._unsynced = {older} if newest in self._unsynced else set()
            with open(os.open(newest, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                file.write(text)
            self._unsynced.add(newest)
        except OSError as error:
            self._log.error("rows not written", file=newest, reason=error)

    def take_unsynced(self) -> set[str]:
        """The files that were written to since this was called last: for `sync`."""
        taken, self._unsynced = self._unsynced, set()
        return taken

    def read(self, limit: int) -> list[Row]:
        """The last rows, the oldest first; a line that was cut by a crash is left out."""
        found: list[Row] = []
        for name in reversed(self._names):
            if len(found) < limit:
                found = [
                    row for line in _last_lines(name, limit * ROW_BYTES) if (row := _row(line)) is not None
                ] + found
        return found[-limit:]


def sync(names: Iterable[str]) -> None:
    """Wait until what was written to files is on the disk; other threads may write to them meanwhile."""
    for name in names:
        with suppress(OSError):  # gone, or a disk that fails: the next write says so
            file = os.open(name, os.O_RDONLY)
            try:
                os.fdatasync(file)
            finally:
                os.close(file)


def _chunks(rows: Iterable[Row], bytes_max: int) -> Iterator[bytes]:
    """Rows as lines, as many at once as fit."""
    lines: list[bytes] = []
    size = 0
    for row in rows:
        line = json.dumps(row).encode() + b"\n"
        if lines and size + len(line) > bytes_max:
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield b"".join(lines)


def _last_lines(name: str, bytes_max: int) -> list[bytes]:
    """The lines at the end of a file."""
    try:
        with open(name, "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - bytes_max)
            file.seek(start)
            lines = file.read(bytes_max).split(b"\n")
    except FileNotFoundError:
        return []
    return lines[1:] if start else lines


def _row(line: bytes) -> Row | None:
    """What a line says, if it can be read."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
