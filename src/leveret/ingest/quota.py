"""Quotas of staged pieces: bytes and files of one sink, of one user and of all of them.

A server has one quota, and so has a node for all shards that it owns. Every counter is kept, not summed up: the check
costs the same however much is staged.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from leveret.core.errors import TooMany
from leveret.ingest.commit_log import Sink

USER_CHARS = 16  # hexadecimal digits of the user in the digest of a sink


@dataclass(frozen=True, slots=True)
class StagingLimits:
    """Without them one user with write permission on one queue fills the disk, or takes all inodes by empty pieces."""

    bytes_max: int
    sink_bytes_max: int
    user_bytes_max: int
    pieces_max: int
    user_pieces_max: int
    age_ms: int


@dataclass(slots=True)
class Used:
    """What one sink, one user or all users have staged."""

    bytes: int = 0
    row_groups: int = 0


def digest_of(sink: Sink) -> str:
    """A sink as 32 hexadecimal digits: the user first, so that files of a user are counted again after a restart."""
    user = blake2b(sink.user.encode(), digest_size=USER_CHARS // 2).hexdigest()
    return user + blake2b("\0".join(sink).encode(), digest_size=USER_CHARS // 2).hexdigest()


class Quota:
    """The counters. Safe for threads."""

    def __init__(self, limits: StagingLimits) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._all = Used()
        self._users: dict[str, Used] = {}
        self._sinks: dict[str, Used] = {}

    def take(self, digest: str, size: int, row_groups: int) -> None:
        """Count bytes and pieces of a sink; refuse what exceeds a limit."""
        with self._lock:
            for used, bytes_max, pieces_max, whose in self._rows(digest):
                for now, more, most, what in (
                    (used.bytes, size, bytes_max, "bytes"),
                    (used.row_groups, row_groups, pieces_max, "pieces"),
                ):
                    if most is not None and more > 0 and now + more > most:
                        raise TooMany(
                            f"{now} {what} are staged {whose.format(what)}, and {more} more exceed the limit of "
                            f"{most}: commit or abort batches, write smaller ones, or raise the limit"
                        )
            self._add(digest, size, row_groups)

    def add(self, digest: str, size: int, row_groups: int) -> None:
        """Count what is there already, or what is gone (negative numbers)."""
        with self._lock:
            self._add(digest, size, row_groups)

    def bytes_of(self, digest: str) -> int:
        """What a sink has staged."""
        with self._lock:
            return self._sinks.get(digest, Used()).bytes

    def _rows(self, digest: str) -> Iterator[tuple[Used, int, int | None, str]]:
        limits, user = self.limits, digest[:USER_CHARS]
        yield self._sinks.get(digest, Used()), limits.sink_bytes_max, None, "in this sink (staging_sink_{}_max)"
        found = self._users.get(user, Used())
        yield found, limits.user_bytes_max, limits.user_pieces_max, "by this user (staging_user_{}_max)"
        yield self._all, limits.bytes_max, limits.pieces_max, "by all users (staging_{}_max)"

    def _add(self, digest: str, size: int, row_groups: int) -> None:
        self._all.bytes += size
        self._all.row_groups += row_groups
        for rows, key in ((self._users, digest[:USER_CHARS]), (self._sinks, digest)):
            used = rows.setdefault(key, Used())
            used.bytes += size
            used.row_groups += row_groups
            if not used.row_groups:
                del rows[key]
