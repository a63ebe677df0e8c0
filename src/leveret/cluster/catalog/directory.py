"""Which shards a message goes to, for those who hold the lock of a shard.

The copy of the catalog has a lock that others hold while they wait for a shard. This one is held only to look, and what
is asked for is always found: it takes no other lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from leveret.cluster.catalog.changes import IN_SHARDS, DefinitionChange
from leveret.cluster.catalog.replica import Replica
from leveret.core.broker import Broker
from leveret.core.deadletter import forms_cycle
from leveret.core.properties import Properties


class QueueDirectory:
    """The exchanges, bindings and queues of the whole cluster."""

    def __init__(self, shards: int, is_served: Callable[[str], bool] = lambda shard: True) -> None:
        """Nothing is known yet; `is_served` tells which shards this node has."""
        self._replica = Replica(shards)
        self._replica.tell_local(is_served)

    def follow(self, changes: list[DefinitionChange]) -> None:
        """Know what is in the log."""
        self._replica.make(change for change in changes if change.kind in IN_SHARDS)

    @contextmanager
    def definitions(self) -> Iterator[Broker]:
        """What there is in all shards, to be looked at in a block."""
        with self._replica.lock:
            yield self._replica.broker

    def reached(self, vhost: str, exchange: str, keys: Sequence[str], properties: Properties) -> dict[str, set[str]]:
        """The queues that a dead letter goes to, by shard."""
        found: dict[str, set[str]] = {}
        with self._replica.lock:
            virtual_host = self._replica.broker.topology.vhosts.get(vhost)
            if virtual_host is not None and exchange in virtual_host.exchanges:
                for queue in virtual_host.route(exchange, list(keys), properties.headers):
                    if not forms_cycle(properties, queue.name):
                        found.setdefault(self._replica.shard_ids[vhost, queue.name], set()).add(queue.name)
        return found
