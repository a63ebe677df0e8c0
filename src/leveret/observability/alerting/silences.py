"""Silences: alerts without notifications for a while, by patterns of rule, virtual host and queue."""

from dataclasses import asdict, dataclass
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.names import check_name
from leveret.core.patterns import glob_matches
from leveret.observability.alerting.engine import Key
from leveret.observability.alerting.fields import ALL, Row, check_known, glob, text, whole

SILENCES_MAX = 100  # each is held against every alert
SILENCE_MS_MAX = 366 * 24 * 3600 * 1000
TIME_MS_MAX = 2**53
GIVEN = ("rule", "vhost", "queue", "until_ms", "why")


@dataclass(frozen=True, slots=True)
class Silence:
    """No receiver is told about what it covers until it ends."""

    name: str
    rule: str
    vhost: str
    queue: str
    since_ms: int
    until_ms: int
    by: str
    why: str

    @classmethod
    def begin(cls, row: Row, name: str, by: str, now_ms: int) -> "Silence":
        """A silence from now on, as a user wrote it."""
        what = "a silence"
        check_name("silence", name)
        text(what, {"by": by}, "by")
        check_known(what, row, GIVEN)
        until_ms = whole(what, row, "until_ms", 0, 0, TIME_MS_MAX)
        if not now_ms < until_ms <= now_ms + SILENCE_MS_MAX:
            raise InvalidArgument("until_ms of a silence is a time in milliseconds since 1970, within a year from now")
        patterns = {pattern: glob(what, row, pattern) for pattern in ("rule", "vhost", "queue")}
        why = text(what, row, "why", needed=True)
        return cls(name=name, **patterns, since_ms=now_ms, until_ms=until_ms, by=by, why=why)

    @classmethod
    def from_dict(cls, stored: Row) -> "Silence":
        return cls(**stored)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def is_in(self, vhost: str) -> bool:
        return glob_matches(self.vhost, vhost)

    def covers(self, key: Key) -> bool:
        patterns = (self.rule, self.vhost, self.queue)
        return all(pattern == ALL or glob_matches(pattern, name) for name, pattern in zip(key, patterns, strict=True))
