"""The end of conflicts about definitions that are older than shards (see leveret.cluster.catalog.reconciliation), as
an operator wants it.

    adopt      the definitions get what shards have and they do not know
    discard    shards lose it, with the messages

Each node does that with the shards that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from leveret.cluster.catalog.changes import DefinitionChange, apply
from leveret.cluster.catalog.replica import Replica, in_order
from leveret.cluster.node import Node
from leveret.cluster.rpc.calls import call
from leveret.cluster.shards.shard import Shard
from leveret.core.broker import Broker
from leveret.core.catalog import Kind
from leveret.core.errors import LeveretError
from leveret.observability.logs import Log

SETTLE = "settle"
SETTLE_S = 40.0  # less than the time for which a command waits

LOG = Log("node")

Row = dict[str, Any]


class ConflictResolution:
    """For the operators of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.call_handlers.works[SETTLE] = self._here

    def conflicts(self) -> list[Row]:
        """What the definitions do not know of the shards of this node."""
        return [row for shard in self._node.shards.values() if (row := shard.reconciliation.conflict()) is not None]

    async def settle(self, discard: bool) -> list[Row]:
        """Settle the conflicts of all nodes within reach; give a row for each shard that had one."""
        about = {"discard": discard}
        rows: list[Row] = await self._here(about)
        for link in list(self._node.links.values()):
            rows += await call(link, SETTLE, about, SETTLE_S)
        return sorted(rows, key=lambda row: int(row["shard"]))

    async def _here(self, about: Row) -> list[Row]:
        discard = bool(about.get("discard"))
        shards = [shard for shard in self._node.shards.values() if shard.reconciliation.unknown]
        return [row for shard in shards for row in await self._settled(shard, discard)]

    async def _settled(self, shard: Shard, discard: bool) -> list[Row]:
        """What a shard had, and what is left of the conflict: what another queue of that name is in the way of."""
        before = shard.reconciliation.conflict()
        if before is None:
            return []  # it has ended meanwhile
        replica = self._node.catalog.replica
        if not discard:
            await self._node.decide(partial(adopt, replica, shard.reconciliation.unknown))
        shard.reconcile(replica, discard)
        after = shard.reconciliation.conflict()
        if after is None:
            LOG.info("conflict resolved", shard=shard.shard_id, discard=discard)
        else:
            LOG.warning("conflict not resolved", shard=shard.shard_id, queues=after["queues"], others=after["others"])
        return [{**before, "left": after}]


def adopt(replica: Replica, changes: Iterable[DefinitionChange], core: Broker) -> None:
    """Let the definitions have what a shard has, in that shard; a verb for the catalog."""
    for change in in_order(changes):
        definition = change.definition
        if change.kind == Kind.QUEUE:
            replica.expected[definition["vhost"], definition["name"]] = definition["home"]
        try:
            apply(core, change)
        except LeveretError as error:
            LOG.warning("definition not adopted", kind=change.kind.name, name=definition.get("name"), reason=error)
