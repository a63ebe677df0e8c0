"""The management API of a node: its own site, those of its shards, and the way to all the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from leveret.cluster.forwarding.auto_deleted import AutoDeleted
from leveret.cluster.forwarding.edges import Api
from leveret.protocols.amqp.description import Description
from leveret.protocols.http.departed import Departed
from leveret.protocols.management.cluster.scopes import BETWEEN, INSIDE
from leveret.protocols.management.handler import inside
from leveret.protocols.management.rates import HISTORY, Rates
from leveret.protocols.management.refusals import refused
from leveret.protocols.management.shard_rates import NodeRates

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.embedded.broker import Broker
    from leveret.protocols.http.async_broker import AsyncBroker
    from leveret.protocols.http.request import Request
    from leveret.protocols.http.router import Answer
    from leveret.protocols.management.context import AdminContext, ClusterOperations
    from leveret.runtime.runtime import Runtime

EDGE = "management"


class Colleagues:
    """The nodes of a cluster as one of them asks them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.auto_deleted = AutoDeleted(node).wait

    @property
    def name(self) -> str:
        """What this one is called."""
        return self._node.name

    @property
    def names(self) -> list[str]:
        """Who is there."""
        return sorted({self._node.name, *self._node.present})

    def shard_ids(self, vhost: str | None = None) -> list[str]:
        """The shards that have queues; of a virtual host, or of any."""
        known = self._node.catalog.replica.shard_ids.items()
        return sorted({shard_id for (where, _), shard_id in known if vhost in (None, where)})

    def shard_id_of(self, vhost: str, queue: str) -> str:
        """The shard of a queue."""
        return self._node.shard_id_of(vhost, queue)

    def owner_of(self, shard_id: str) -> str | None:
        """The node that has a shard."""
        return self._node.owner_of(shard_id)

    def ask(self, shard_id: str, request: Request) -> Answer | Awaitable[Answer]:
        """What a shard answers."""
        return self._node.forwarder.ask(shard_id, EDGE, request)

    async def ask_node(self, name: str, request: Request) -> Answer:
        """What a node answers."""
        return await self._node.forwarder.ask_node(name, EDGE, request)

    async def everywhere(self, request: Request) -> dict[str, Answer]:
        """What all nodes answer that do so in time."""
        return await self._node.forwarder.everywhere(EDGE, request)


class ManagedShard:
    """The management of one shard; `of` is that of its node, which may begin later."""

    def __init__(self, of: NodeManagement, shard_id: str, broker: Broker, async_broker: AsyncBroker) -> None:
        self._of = of
        self._shard_id = shard_id
        self._async_broker = async_broker
        self.runtime: Runtime = broker.runtime
        self.rates = Rates(broker.runtime, dict, HISTORY)

    @cached_property
    def context(self) -> AdminContext:
        """What the endpoints of the shard use."""
        node, whole = self._of.node, self._of.context
        clients = Description(node.shards[self._shard_id].hub, node.name)
        number = int(self._shard_id) if self._shard_id.isdigit() else None
        own = replace(whole, async_broker=self._async_broker, clients=clients, rates=self.rates, shard=number)
        return replace(own, cluster=None, shards=None, nodes=None)

    @cached_property
    def _answer(self) -> Callable[[Request], Answer | Awaitable[Answer]]:
        return inside(self.context, INSIDE)

    @property
    def edge(self) -> Api:
        """What answers requests about the shard."""
        return Api(lambda request: self._answer(request), refused)

    def close(self) -> None:
        """The shard is served no more."""
        self._of.close(self._shard_id, self)


class NodeManagement:
    """The management of a node and of its shards."""

    def __init__(self) -> None:
        self.departed = Departed()
        self._shards: dict[str, ManagedShard] = {}
        self._node: Node | None = None
        self._context: AdminContext | None = None

    @property
    def node(self) -> Node:
        """The node."""
        assert self._node is not None, "requests come only after it has joined"
        return self._node

    @property
    def context(self) -> AdminContext:
        """What the endpoints of the node use."""
        assert self._context is not None, "requests come only after it has joined"
        return self._context

    def furnish(self, shard_id: str, broker: Broker, async_broker: AsyncBroker) -> ManagedShard:
        """The management of a shard that the node begins to serve."""
        made = self._shards[shard_id] = ManagedShard(self, shard_id, broker, async_broker)
        return made

    def close(self, shard_id: str, shard: ManagedShard) -> None:
        """A shard is served no more: what was counted in it stays."""
        if self._shards.get(shard_id) is shard:
            del self._shards[shard_id]
            self.departed.keep(shard.runtime)

    def runtimes(self) -> list[Runtime]:
        """The brokers of the shards that the node has."""
        return [shard.runtime for shard in self._shards.values()]

    def join(self, node: Node, context: AdminContext, cluster: ClusterOperations) -> AdminContext:
        """Answer other nodes, by what a single server would use; give what clients of this one are answered by."""
        self._node = node
        rates = NodeRates(
            context.async_broker.runtime,
            context.clients.churn,
            lambda: [shard.rates for shard in list(self._shards.values())],
        )
        self._context = replace(
            context,
            rates=rates,
            cluster=cluster,
            shards=self.runtimes,
            departed=self.departed,
            nodes=Colleagues(node),
        )
        node.edges[EDGE] = Api(inside(self._context, BETWEEN), refused)
        return self._context
