"""What a node knows of the definitions of the whole cluster: a broker without messages, and the shard of each queue.

Every node applies the same changes in the same order, so all of them know the same, and refuse the same.
"""

from collections.abc import Callable
from typing import TypeVar

from leveret.core.broker import Broker
from leveret.core.changes import Change, DeclareQueue, DeleteQueue
from leveret.core.errors import QueueNotFound
from leveret.core.names import described

T = TypeVar("T")


class Replica:
    """The definitions, on one node."""

    def __init__(self, core: Broker, place: Callable[[DeclareQueue], str]) -> None:
        """Know what the core knows; `place` chooses the shard of a new queue, everywhere the same."""
        self.core = core
        self._place = place
        self._homes: dict[tuple[str, str], str] = {}

    def apply(self, change: Change[T]) -> T:
        """Do what was decided; raises what is refused."""
        result = change.apply(self.core)
        if isinstance(change, DeclareQueue):
            self._homes.setdefault((change.vhost, change.name), self._place(change))
        elif isinstance(change, DeleteQueue):
            self._homes.pop((change.vhost, change.name), None)
        return result

    def home_of(self, vhost: str, queue: str) -> str:
        """The shard of a queue."""
        home = self._homes.get((vhost, queue))
        if home is None:
            raise QueueNotFound(f"no {described('queue', queue, vhost)}")
        return home
