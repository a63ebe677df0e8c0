"""Names of queues that were deleted a moment ago: no queue is made of them for a minute, as at AWS.

They are definitions of the core, so that a restart does not forget them, and every node of a cluster knows.
"""

from leveret.core.broker import Broker
from leveret.core.catalog import Kind

RECREATE_MS = 60_000
SWEEP_EVERY = 100  # deletions: looking through all definitions at each would make many deletions slow


class Deleted:
    """Those of one virtual host; used under the lock."""

    def __init__(self, core: Broker, vhost: str) -> None:
        self._core = core
        self._vhost = vhost
        self._noted = 0

    def note(self, name: str) -> None:
        """A queue was deleted now."""
        self._core.define(Kind.DELETED_QUEUE, {**self._key(name), "deleted_ms": self._core.now_ms})
        self._noted += 1
        if self._noted % SWEEP_EVERY == 0:
            self._sweep()

    def has(self, name: str) -> bool:
        """Whether a queue of that name was deleted within the last minute."""
        row = self._core.catalog.get(Kind.DELETED_QUEUE, **self._key(name))
        return row is not None and self._is_recent(row["deleted_ms"])

    def _key(self, name: str) -> dict[str, str]:
        return {"vhost": self._vhost, "name": name}

    def _is_recent(self, deleted_ms: int) -> bool:
        # Also if the clock of another node is ahead: then for at most another minute.
        return abs(self._core.now_ms - deleted_ms) < RECREATE_MS

    def _sweep(self) -> None:
        """Forget those of which a queue can be made again."""
        for row in list(self._core.catalog.of(Kind.DELETED_QUEUE)):
            if not self._is_recent(row["deleted_ms"]):
                self._core.undefine(Kind.DELETED_QUEUE, {"vhost": row["vhost"], "name": row["name"]})
