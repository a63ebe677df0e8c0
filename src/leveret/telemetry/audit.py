"""Who changed what: administrative acts, in the log and in a file of bounded size.

The file is `audit.jsonl`, see telemetry/row_file.py; `recent` reads what is in memory: the newest acts, those before
the last start too.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from leveret.clock import Clock
from leveret.core.errors import LeveretError
from leveret.telemetry.logs import HIDDEN, SECRET, Log, around, clipped
from leveret.telemetry.row_file import FILE_BYTES_MAX, Row, RowFile

ACTS_MAX = 1_000  # in memory
NAME = "audit"
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
        self._file = RowFile(directory, NAME, LOG, file_bytes_max)
        self._acts: deque[Row] = deque(self._file.read(ACTS_MAX), ACTS_MAX)

    def note(self, by: str, act: str, outcome: str = "done", /, **facts: object) -> None:
        """Somebody did something, or was refused."""
        known = {**facts, **around()}
        told = {name: HIDDEN if SECRET.search(name) else clipped(value) for name, value in known.items()}
        row = {**told, "at_ms": self._clock.now_ms(), "by": clipped(by), "act": act, "outcome": clipped(outcome)}
        self._acts.append(row)
        LOG.info("act", **{name: value for name, value in row.items() if name != "at_ms"})
        self._file.append([row])

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
