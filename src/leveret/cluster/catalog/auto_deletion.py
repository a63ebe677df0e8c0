"""Queues that go by themselves: with their connection, with the node of that, or because their shard has deleted them.

No client asks for it, so no client would ask again: what the catalog cannot be told now it is told later.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from leveret.cluster.catalog.catalog import Verb
from leveret.cluster.coordination.placement import LOCAL, shard_id_of_owner
from leveret.core.broker import Broker
from leveret.core.changes import DeleteQueue
from leveret.core.errors import BrokerClosed, JournalFailed, Unreachable
from leveret.observability.logs import Log

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.cluster.shards.shard import Shard
    from leveret.core.queue import Queue

LOG = Log("node")


class AutoDeletion:
    """Those that a node has to tell of."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._late: list[Verb] = []
        self._around: tuple[frozenset[str], frozenset[str]] | None = None

    def insist(self, verb: Verb) -> None:
        """Decide something that no client waits for, with as many attempts as it takes."""

        def done(result: Any) -> None:
            if isinstance(result, Unreachable):
                self._late.append(verb)
            elif isinstance(result, Exception) and not isinstance(result, BrokerClosed):
                LOG.warning("queue not forgotten", reason=result)

        self._node.begin(verb, done)

    def look(self) -> None:
        """Try again what could not be decided, and look who has come or gone."""
        late, self._late = self._late, []
        for verb in late:
            self.insist(verb)
        self._look_for_orphans()

    # Of a shard

    def hear(self, shard: Shard, queue: Queue) -> None:
        """A shard of this node has no such queue any more; from whatever thread let time pass there."""
        self._node.wake(partial(self._gone, shard, queue.vhost, queue.name))

    def _gone(self, shard: Shard, vhost: str, name: str) -> None:
        """Let the catalog have no such queue either, unless it was declared again meanwhile."""
        node = self._node

        def forget(core: Broker) -> None:
            mine = node.shards.get(shard.shard_id) is shard and node.owner_of(shard.shard_id) == node.name
            if mine and not shard.has_queue(vhost, name):
                DeleteQueue(vhost, name).apply(core)

        if node.catalog.replica.shard_ids.get((vhost, name)) != shard.shard_id:
            return
        # Not before it is durable: what a node does that has lost the shard, and does not know it yet, never is.
        with suppress(JournalFailed, BrokerClosed), shard.hub.locked():
            shard.hub.when_durable(lambda: self.insist(forget))

    # Of connections

    def _look_for_orphans(self) -> None:
        """When others come or go: one of those who stay removes the queues whose connections went with their node."""
        node = self._node
        present = frozenset(node.present)
        around = present, frozenset(node.links)
        if around == self._around:
            return
        self._around = around
        if node.name != min(present, default=""):
            return

        def drop(core: Broker) -> None:
            alive = {LOCAL + each for each in (*node.present, *node.links)}
            drop_queues_of(lambda shard_id: shard_id not in alive, core)

        def done(result: object) -> None:
            if isinstance(result, Exception):
                self._around = None  # to be tried again

        node.begin(drop, done)


def drop_queues_of(chosen: Callable[[str], bool], core: Broker) -> None:
    """Delete the queues of connections on chosen nodes."""
    for vhost in core.topology.vhosts.values():
        for queue in [each for each in vhost.queues.values() if isinstance(each.owner, str)]:
            if chosen(shard_id_of_owner(queue.owner)):
                core.delete_queue(queue)
