"""What happened to alerts: the newest events in memory, and in a file of bounded size that the next process reads.

One JSON object in a line. At FILE_BYTES_MAX the file becomes `alerts.1.jsonl`, in place of the one before. An event is
`firing` or `resolved` (with all about the alert), `sent` or `not sent` (to a receiver), `silenced` or `unsilenced`.
"""

import json
import os
from collections import deque
from collections.abc import Iterable
from typing import Any

from leveret.alerting.engine import FIRING, RESOLVED, Key
from leveret.telemetry.logs import Log

Row = dict[str, Any]

EVENTS_MAX = 5_000  # in memory: as many as there may be alerts, so that each that is firing can be found again
FILE_BYTES_MAX = 8 << 20
SENT, NOT_SENT, SILENCED, UNSILENCED = "sent", "not sent", "silenced", "unsilenced"
NAME = "alerts.jsonl"
OLDER = "alerts.1.jsonl"

LOG = Log("alerts")


class History:
    """The events of one server."""

    def __init__(self, directory: str | None = None, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        """Keep events in a directory, or in memory only."""
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._events: deque[Row] = deque(self._stored(), EVENTS_MAX)

    def note(self, rows: Iterable[Row]) -> None:
        """Some events, written together."""
        fresh = list(rows)
        self._events.extend(fresh)
        if fresh and self._directory is not None:
            self._append(self._directory, "".join(json.dumps(row) + "\n" for row in fresh))

    def recent(self, limit: int = 100, vhosts: frozenset[str] | None = None) -> list[Row]:
        """The last events, the newest first; of some virtual hosts, and of none in particular."""
        found: list[Row] = []
        for row in reversed(self._events):
            if len(found) >= limit:
                break
            if vhosts is None or row.get("vhost") is None or row["vhost"] in vhosts:
                found.append(row)
        return found

    def firing(self) -> dict[Key, Row]:
        """The alerts whose last event is that they are firing."""
        last: dict[Key, Row] = {}
        for row in self._events:
            if row.get("event") in (FIRING, RESOLVED) and _has_numbers(row, "since_ms", "value"):
                last[str(row.get("rule")), str(row.get("vhost")), str(row.get("queue"))] = row
        return {key: row for key, row in last.items() if row["event"] == FIRING}

    def told(self) -> dict[tuple[str, str], int]:
        """The time of the last notice about a rule that a receiver took, by receiver and rule."""
        return {
            (str(row.get("receiver")), str(row.get("rule"))): row["notice_ms"]
            for row in self._events
            if row.get("event") == SENT and _has_numbers(row, "notice_ms")
        }

    def _append(self, directory: str, text: str) -> None:
        """Write some lines. A disk that takes none is told in the log: alerts go on."""
        path = os.path.join(directory, NAME)
        try:
            if os.path.exists(path) and os.path.getsize(path) + len(text) > self._file_bytes_max:
                os.replace(path, os.path.join(directory, OLDER))
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
                file.write(text)
        except OSError as error:
            LOG.error("alert history not written", reason=error)

    def _stored(self) -> list[Row]:
        """What the files have, the oldest first; a line that was cut by a crash is left out."""
        found: list[Row] = []
        for name in (OLDER, NAME) if self._directory is not None else ():
            try:
                with open(os.path.join(str(self._directory), name), errors="replace") as file:
                    found += [row for line in file if (row := _row(line)) is not None]
            except FileNotFoundError:
                continue
        return found[-EVENTS_MAX:]


def _has_numbers(row: Row, *names: str) -> bool:
    """Whether a row says what it should: a file can be changed by others."""
    return all(type(row.get(name)) in (int, float) for name in names)


def _row(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
