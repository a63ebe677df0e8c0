"""The exclusive queues of a connection, which go with it."""

from leveret.core.broker import Broker
from leveret.core.queue import Queue

SLACK = 16


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
        """Delete those that are left."""
        for queue in self.take():
            core.delete_queue(queue)
