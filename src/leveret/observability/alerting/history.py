"""What happened to alerts: the newest events in memory, and in a file of bounded size that the next process reads.

The file is `alerts.jsonl`, see observability/row_file.py. An event is `firing` or `resolved` (with all about the
alert), `sent` or `not sent` (to a receiver), `silenced` or `unsilenced`.
"""

from collections import deque
from collections.abc import Iterable

from leveret.observability.alerting.engine import FIRING, RESOLVED, Key
from leveret.observability.chain import Row
from leveret.observability.logs import Log
from leveret.observability.row_file import FILE_BYTES_MAX, RowFile

EVENTS_MAX = 5_000  # in memory: as many as there may be alerts, so that each that is firing can be found again
SENT, NOT_SENT, SILENCED, UNSILENCED = "sent", "not sent", "silenced", "unsilenced"
NAME = "alerts"

LOG = Log("alerts")


class AlertHistory:
    """The events of one server."""

    def __init__(self, directory: str | None = None, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._file = RowFile(directory, NAME, LOG, file_bytes_max)
        self._events: deque[Row] = deque(self._file.read(EVENTS_MAX), EVENTS_MAX)

    def note(self, rows: Iterable[Row]) -> None:
        """Some events, written together."""
        fresh = list(rows)
        self._events.extend(fresh)
        self._file.append(fresh)

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
        """The time of the last notification about a rule that a receiver took, by receiver and rule."""
        return {
            (str(row.get("receiver")), str(row.get("rule"))): row["notice_ms"]
            for row in self._events
            if row.get("event") == SENT and _has_numbers(row, "notice_ms")
        }


def _has_numbers(row: Row, *names: str) -> bool:
    """Whether a row says what it should: a file can be changed by others."""
    return all(type(row.get(name)) in (int, float) for name in names)
