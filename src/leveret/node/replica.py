"""What a node knows of the definitions of the whole cluster: a broker without messages, and the shard of each queue.

Every node applies the same changes in the same order, so all of them know the same, and refuse the same.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from leveret.core.broker import Broker
from leveret.core.changes import Bind, Change, DeclareQueue, DeleteQueue, Unbind
from leveret.core.errors import QueueNotFound
from leveret.core.names import described
from leveret.core.queue import Queue
from leveret.core.topology import Vhost

NOWHERE = ""

T = TypeVar("T")


class Replica:
    """The definitions, on one node."""

    def __init__(self, core: Broker, place: Callable[[DeclareQueue], str]) -> None:
        """Know what the core knows; `place` chooses the shard of a new queue, everywhere the same."""
        self.core = core
        self._place = place
        self._homes: dict[tuple[str, str], str] = {}

    def home(self, change: Change[Any]) -> str | None:
        """The shard that a change concerns; None: every one. To be asked before it is applied."""
        if isinstance(change, DeclareQueue | DeleteQueue):
            name = change.name
        elif isinstance(change, Bind | Unbind) and change.destination_type == "queue":
            name = change.destination
        else:
            return None
        known = self._homes.get((change.vhost, name))
        return self._place(change) if known is None and isinstance(change, DeclareQueue) else known or NOWHERE

    def apply(self, change: Change[T]) -> T:
        """Do what was decided; raises what is refused."""
        result = _interned(change).apply(self.core)
        if isinstance(change, DeclareQueue):
            self._homes.setdefault((change.vhost, change.name), self._place(change))
        elif isinstance(change, DeleteQueue):
            self._homes.pop((change.vhost, change.name), None)
        return result

    def queues_in(self, vhost: Vhost, home: str) -> list[Queue]:
        """The queues of a virtual host that are in a shard."""
        return [queue for queue in vhost.queues.values() if self._homes.get((vhost.name, queue.name)) == home]

    def home_of(self, vhost: str, queue: str) -> str:
        """The shard of a queue."""
        home = self._homes.get((vhost, queue))
        if home is None:
            raise QueueNotFound(f"no {described('queue', queue, vhost)}")
        return home


def _interned(change: Change[T]) -> Change[T]:
    """The same change; its owner, if it has one, is the very object that he is known by."""
    if isinstance(change, DeclareQueue) and isinstance(change.owner, str):
        return cast("Change[T]", replace(change, owner=sys.intern(change.owner)))
    return change
