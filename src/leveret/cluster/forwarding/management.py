"""The management API of a node: its own site, those of its shards, and the way to all the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from leveret.cluster.forwarding.auto_deleted import Vanishing
from leveret.cluster.forwarding.edges import Edge
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
    from leveret.protocols.http.async_broker import Desk
    from leveret.protocols.http.request import Request
    from leveret.protocols.http.router import Answer
    from leveret.protocols.management.context import Cluster, Site
    from leveret.runtime.runtime import Guard

EDGE = "management"


class Colleagues:
    """The nodes of a cluster as one of them asks them."""

    def __init__(self, node: Node) -> None:
        """Ask by a node."""
        self._node = node
        self.vanishing = Vanishing(node).wait

    @property
    def name(self) -> str:
        """What this one is called."""
        return self._node.name

    @property
    def names(self) -> list[str]:
        """Who is there."""
        return sorted({self._node.name, *self._node.present})

    def homes(self, vhost: str | None = None) -> list[str]:
        """The shards that have queues; of a virtual host, or of any."""
        known = self._node.catalog.replica.homes.items()
        return sorted({home for (where, _), home in known if vhost in (None, where)})

    def home_of(self, vhost: str, queue: str) -> str:
        """The shard of a queue."""
        return self._node.home_of(vhost, queue)

    def owner_of(self, home: str) -> str | None:
        """The node that has a shard."""
        return self._node.owner_of(home)

    def ask(self, home: str, request: Request) -> Answer | Awaitable[Answer]:
        """What a shard answers."""
        return self._node.courier.ask(home, EDGE, request)

    async def ask_node(self, name: str, request: Request) -> Answer:
        """What a node answers."""
        return await self._node.courier.ask_node(name, EDGE, request)

    async def everywhere(self, request: Request) -> dict[str, Answer]:
        """What all nodes answer that do so in time."""
        return await self._node.courier.everywhere(EDGE, request)


class ManagedShard:
    """The management of one shard; `of` is that of its node, which may begin later."""

    def __init__(self, of: NodeManagement, home: str, broker: Broker, desk: Desk) -> None:
        """Count from now on."""
        self._of = of
        self._home = home
        self._desk = desk
        self.guard: Guard = broker.guard
        self.rates = Rates(broker.guard, dict, HISTORY)

    @cached_property
    def site(self) -> Site:
        """What the endpoints of the shard use."""
        node, whole = self._of.node, self._of.site
        clients = Description(node.shards[self._home].hub, node.name)
        number = int(self._home) if self._home.isdigit() else None
        own = replace(whole, desk=self._desk, clients=clients, rates=self.rates, shard=number)
        return replace(own, cluster=None, shards=None, nodes=None)

    @cached_property
    def _answer(self) -> Callable[[Request], Answer | Awaitable[Answer]]:
        return inside(self.site, INSIDE)

    @property
    def edge(self) -> Edge:
        """What answers requests about the shard."""
        return Edge(lambda request: self._answer(request), refused)

    def close(self) -> None:
        """The shard is served no more."""
        self._of.close(self._home, self)


class NodeManagement:
    """The management of a node and of its shards."""

    def __init__(self) -> None:
        """There is no node yet."""
        self.departed = Departed()
        self._shards: dict[str, ManagedShard] = {}
        self._node: Node | None = None
        self._site: Site | None = None

    @property
    def node(self) -> Node:
        """The node."""
        assert self._node is not None, "requests come only after it has joined"
        return self._node

    @property
    def site(self) -> Site:
        """What the endpoints of the node use."""
        assert self._site is not None, "requests come only after it has joined"
        return self._site

    def furnish(self, home: str, broker: Broker, desk: Desk) -> ManagedShard:
        """The management of a shard that the node begins to serve."""
        made = self._shards[home] = ManagedShard(self, home, broker, desk)
        return made

    def close(self, home: str, shard: ManagedShard) -> None:
        """A shard is served no more: what was counted in it stays."""
        if self._shards.get(home) is shard:
            del self._shards[home]
            self.departed.keep(shard.guard)

    def guards(self) -> list[Guard]:
        """The brokers of the shards that the node has."""
        return [shard.guard for shard in self._shards.values()]

    def join(self, node: Node, site: Site, cluster: Cluster) -> Site:
        """Answer other nodes, by what a single server would use; give what clients of this one are answered by."""
        self._node = node
        rates = NodeRates(
            site.desk.guard, site.clients.churn, lambda: [shard.rates for shard in list(self._shards.values())]
        )
        self._site = replace(
            site,
            rates=rates,
            cluster=cluster,
            shards=self.guards,
            departed=self.departed,
            nodes=Colleagues(node),
        )
        node.edges[EDGE] = Edge(inside(self._site, BETWEEN), refused)
        return self._site
