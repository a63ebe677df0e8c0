"""Rows that the next process reads: one JSON object in a line, in a file of bounded size.

When the file is full it becomes `NAME.1.jsonl`, in place of the one before, and a new one is begun. The lines may be
chained: see chain.py.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from leveret.file_sync import datasync
from leveret.observability.chain import ChainHead, Row, head_of, parsed, text_of
from leveret.observability.logs import Log

FILE_BYTES_MAX = 8 << 20
CHUNK_BYTES = 65_536  # written at once
TAIL_BYTES = 1 << 20  # in which the last whole line is, also behind what a power cut left of a second's rows
ROW_BYTES = 4_096  # that are read for each of the last rows: few have more
ENDS = (".1.jsonl", ".jsonl")  # the older file, and the one that is written to


class RowFile:
    """The rows of one kind in a directory; without one they are kept nowhere."""

    def __init__(
        self, directory: str | None, name: str, log: Log, bytes_max: int = FILE_BYTES_MAX, *, chained: bool = False
    ) -> None:
        """`log` is told when the disk takes nothing."""
        self._log = log
        self._bytes_max = bytes_max
        self._chained = chained
        self._names: tuple[str, ...] = () if directory is None else paths(directory, name)
        self._unsynced: set[str] = set()
        self._torn = False
        self.head = ChainHead()
        """The last line of the chain that is in the file."""
        self.written: Callable[[Row, bytes], None] | None = None
        """Called with each row that is in the file, and its line."""
        self._look()

    def _look(self) -> None:
        """See how the file ends: a crash, or a full disk, may have cut its last line."""
        if not self._names:
            return
        older, newest = self._names
        lines = _last_lines(newest, TAIL_BYTES)
        self._torn = bool(lines) and lines[-1] != b""
        if self._chained:
            has_row = any(parsed(line) is not None for line in reversed(lines))
            self.head = head_of(lines if has_row else _last_lines(older, TAIL_BYTES))

    def append(self, rows: Sequence[Row]) -> int:
        """Write rows together; give how many were written.

        A disk that takes none is told in the log: what the rows tell of must not fail for it.
        """
        written = 0 if self._names else len(rows)
        while written < len(rows):
            head, lines = self._chunk(rows[written:])
            try:
                self._write(b"".join(line + b"\n" for line in lines))
            except OSError as error:
                self._log.error("rows not written", file=self._names[-1], reason=error)
                return written + self._taken()
            self.head = head
            if self.written is not None:
                for row, line in zip(rows[written:], lines, strict=False):
                    self.written(row, line)
            written += len(lines)
        return written

    def _taken(self) -> int:
        """How many rows the disk took, with a write that failed; the chain goes on after them."""
        before = self.head
        with suppress(OSError):
            self._look()
        if self.head.seq < before.seq:  # the file cannot be found now
            self.head = before
        return self.head.seq - before.seq

    def _chunk(self, rows: Sequence[Row]) -> tuple[ChainHead, list[bytes]]:
        """As many of the first rows as are written at once, as lines, and the head after them."""
        bytes_max = min(CHUNK_BYTES, self._bytes_max)
        lines: list[bytes] = []
        size, head = 0, self.head
        for row in rows:
            line, after = head.line(row) if self._chained else (text_of(row), head)
            if lines and size + len(line) >= bytes_max:
                break
            lines.append(line)
            size += len(line) + 1
            head = after
        return head, lines

    def _write(self, text: bytes) -> None:
        older, newest = self._names
        if self._torn:
            text = b"\n" + text
        if os.path.exists(newest) and os.path.getsize(newest) + len(text) > self._bytes_max:
            os.replace(newest, older)
            self._unsynced = {older} if newest in self._unsynced else set()
        with open(os.open(newest, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0) as file:
            if file.write(text) != len(text):
                raise OSError("the disk took a part of them")
        self._torn = False
        self._unsynced.add(newest)

    def take_unsynced(self) -> set[str]:
        """The files that were written to since this was called last: for `sync`."""
        taken, self._unsynced = self._unsynced, set()
        return taken

    def read(self, limit: int) -> list[Row]:
        """The last rows, the oldest first; a line that was cut by a crash is left out."""
        found: list[Row] = []
        for name in reversed(self._names):
            if len(found) < limit:
                lines = _last_lines(name, limit * ROW_BYTES)[-limit - 1 :]
                found = [row for line in lines if (row := parsed(line)) is not None] + found
        return found[-limit:]


def paths(directory: str, name: str) -> tuple[str, str]:
    """The older file of a kind, and the one that is written to."""
    older, newest = (os.path.join(directory, name + end) for end in ENDS)
    return older, newest


def sync(names: Iterable[str]) -> None:
    """Wait until what was written to files is on the disk; other threads may write to them meanwhile."""
    for name in names:
        with suppress(OSError):  # gone, or a disk that fails: the next write says so
            file = os.open(name, os.O_RDONLY)
            try:
                datasync(file)
            finally:
                os.close(file)


def _last_lines(name: str, bytes_max: int) -> list[bytes]:
    """The lines at the end of a file; the last of them is what follows the last line break."""
    try:
        with open(name, "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - bytes_max)
            file.seek(start)
            lines = file.read(bytes_max).split(b"\n")
    except FileNotFoundError:
        return []
    return lines[1:] if start else lines
