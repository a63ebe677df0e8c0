"""How far a connection has come, and why the server may not read from it for a while."""

from enum import Enum

from leveret.core.broker import Broker
from leveret.core.queue import Queue

SLACK = 16


class ConnectionState(Enum):
    """The states in their order; the values are what errors call them."""

    HEADER = "pre_init"
    STARTING = "starting"
    AUTHENTICATING = "securing"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


UNKNOWN = frozenset((ConnectionState.HEADER, ConnectionState.STARTING, ConnectionState.AUTHENTICATING))
HANDSHAKE = UNKNOWN | {ConnectionState.TUNING, ConnectionState.OPENING}


class Hold(Enum):
    """Why nothing is read from a connection."""

    LOGIN = "a password is being looked at"
    ANSWER = "an answer waits for the disk"
    BODY = "a large body is being stored"
    DISK = "the disk is behind"
    OUTPUT = "the client does not read what it asked for"
    ALARM = "memory or disk is short, and the client publishes"
    SHARD = "another part of the cluster is waited for"
    DEFINITIONS = "the definitions of the cluster may have changed"


class Owned:
    """Queues that no other connection may use."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._known_max = SLACK

    def __len__(self) -> int:
        """How many are remembered; some of them may be gone."""
        return len(self._queues)

    def add(self, queue: Queue) -> None:
        """Remember a queue; those that were deleted meanwhile are forgotten, but not at each declaration."""
        if len(self._queues) >= self._known_max:
            self._queues = {each.name: each for each in self._queues.values() if not each.deleted}
            self._known_max = 2 * len(self._queues) + SLACK
        self._queues[queue.name] = queue

    def take(self) -> list[Queue]:
        """Those that are left, which are forgotten."""
        left = [queue for queue in self._queues.values() if not queue.deleted]
        self._queues.clear()
        return left

    def delete_all(self, core: Broker) -> None:
        for queue in self.take():
            core.delete_queue(queue)
