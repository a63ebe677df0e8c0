"""Who changed what: administrative acts, in the log and in a file of bounded size.

One JSON object in a line. At FILE_BYTES_MAX the file becomes `audit.1.jsonl`, in place of the one before; `recent`
reads what is in memory: the newest acts, those before the last start too.
"""

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from leveret.clock import Clock
from leveret.core.errors import LeveretError
from leveret.telemetry.logs import HIDDEN, SECRET, Log, around, clipped

ACTS_MAX = 1_000  # in memory
FILE_BYTES_MAX = 8 << 20
NAME = "audit.jsonl"
OLDER = "audit.1.jsonl"
UNFINISHED = "failed, or was given up by the client: look whether it was done"

LOG = Log("audit")


class Act:
    """An act that is being done; what came of it, unless it raises something."""

    outcome = "done"


class Audit:
    """The acts of one server."""

    def __init__(self, clock: Clock, directory: str | None = None, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        """Keep acts in a directory, or in memory only."""
        self._clock = clock
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._acts: deque[dict[str, Any]] = deque(self._stored(), ACTS_MAX)

    def note(self, by: str, act: str, outcome: str = "done", /, **facts: object) -> None:
        """Somebody did something, or was refused."""
        known = {**facts, **around()}
        told = {name: HIDDEN if SECRET.search(name) else clipped(value) for name, value in known.items()}
        row = {**told, "at_ms": self._clock.now_ms(), "by": clipped(by), "act": act, "outcome": clipped(outcome)}
        self._acts.append(row)
        LOG.info("act", **{name: value for name, value in row.items() if name != "at_ms"})
        if self._directory is not None:
            self._append(self._directory, json.dumps(row))

    @contextmanager
    def noting(self, by: str, act: str, /, **facts: object) -> Iterator[Act]:
        """Note an act at its end: that it was done, why it was refused, or that nobody knows how far it came."""
        noted = Act()
        try:
            yield noted
        except LeveretError as error:
            self.note(by, act, str(error) or type(error).__name__, **facts)
            raise
        except BaseException:
            self.note(by, act, UNFINISHED, **facts)
            raise
        self.note(by, act, noted.outcome, **facts)

    def recent(self, limit: int = 100) -> list[Mapping[str, Any]]:
        """The last acts, the newest first."""
        return [row for _, row in zip(range(limit), reversed(self._acts), strict=False)]

    def _append(self, directory: str, line: str) -> None:
        """Write one line. A disk that takes none is told in the log: the act itself must not fail for it."""
        path = os.path.join(directory, NAME)
        try:
            if os.path.exists(path) and os.path.getsize(path) + len(line) > self._file_bytes_max:
                os.replace(path, os.path.join(directory, OLDER))
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
                file.write(line + "\n")
        except OSError as error:
            LOG.error("act not written", reason=error)

    def _stored(self) -> list[dict[str, Any]]:
        """What the files have, the oldest first; a line that was cut by a crash is left out."""
        found: list[dict[str, Any]] = []
        for name in (OLDER, NAME) if self._directory is not None else ():
            try:
                with open(os.path.join(str(self._directory), name), errors="replace") as file:
                    found += [row for line in file if (row := _row(line)) is not None]
            except FileNotFoundError:
                continue
        return found[-ACTS_MAX:]


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
