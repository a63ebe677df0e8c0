"""The management API of a node and of its shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from leveret.cluster.forwarding.dispatcher import OperationDispatcher, Task
from leveret.cluster.forwarding.handler import Api
from leveret.operations.registry import OPERATIONS
from leveret.protocols.amqp.description import Description
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answered
from leveret.protocols.management.context import Departed
from leveret.protocols.management.handler import inside
from leveret.protocols.management.rates import HISTORY, NodeRates, Rates
from leveret.protocols.management.refusals import Missing, refused

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.protocols.http.async_broker import AsyncBroker
    from leveret.protocols.management.call import ManagementCall
    from leveret.protocols.management.context import AdminContext, ClusterOperations
    from leveret.protocols.management.routes import Route
    from leveret.runtime.runtime import Runtime

EDGE = "management"
LISTING = frozenset((b"page", b"page_size", b"name", b"use_regex", b"sort", b"sort_reverse", b"columns"))
"""The fields of a query that are about a whole list, or about the columns of its rows."""


class ManagedShard:
    """The management of one shard."""

    def __init__(self, node: NodeManagement, shard_id: str, runtime: Runtime, async_broker: AsyncBroker) -> None:
        """`node` may join its cluster later."""
        self._node = node
        self._shard_id = shard_id
        self._async_broker = async_broker
        self.runtime = runtime
        self.rates = Rates(runtime, dict, HISTORY)

    @cached_property
    def context(self) -> AdminContext:
        node, whole = self._node.node, self._node.context
        clients = Description(node.shards[self._shard_id].hub, node.name)
        number = int(self._shard_id) if self._shard_id.isdigit() else None
        own = replace(whole, async_broker=self._async_broker, clients=clients, rates=self.rates, shard=number)
        return replace(own, cluster=None, shards=None, nodes=None)

    @cached_property
    def _answer(self) -> Callable[[Request], Answered]:
        return inside(self.context)

    @property
    def edge(self) -> Api:
        return Api(lambda request: self._answer(request), refused)

    def close(self) -> None:
        self._node.close(self._shard_id, self)


class NodeManagement:
    """The management of a node and of its shards."""

    def __init__(self) -> None:
        self.departed = Departed()
        self._shards: dict[str, ManagedShard] = {}
        self._node: Node | None = None
        self._context: AdminContext | None = None

    @property
    def node(self) -> Node:
        assert self._node is not None, "requests come only after it has joined"
        return self._node

    @property
    def context(self) -> AdminContext:
        assert self._context is not None, "requests come only after it has joined"
        return self._context

    def add(self, shard_id: str, runtime: Runtime, async_broker: AsyncBroker) -> ManagedShard:
        """Make the management of a shard that the node begins to serve."""
        made = self._shards[shard_id] = ManagedShard(self, shard_id, runtime, async_broker)
        return made

    def close(self, shard_id: str, shard: ManagedShard) -> None:
        """Stop serving a shard, and keep what was counted in it."""
        if self._shards.get(shard_id) is shard:
            del self._shards[shard_id]
            self.departed.keep(shard.runtime)

    def runtimes(self) -> list[Runtime]:
        return [shard.runtime for shard in self._shards.values()]

    def join(self, node: Node, context: AdminContext, cluster: ClusterOperations) -> AdminContext:
        """Answer other nodes, by what a single server would use; give what clients of this one are answered by."""
        self._node = node
        self._dispatcher = OperationDispatcher(node, EDGE, partial=True)
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
            nodes=self._dispatcher,
            dispatch=self.dispatch,
        )
        node.edges[EDGE] = Api(inside(self._context), refused)
        return self._context

    def dispatch(self, route: Route, call: ManagementCall) -> Answered:
        """Run an endpoint where the scope of its operation says."""
        run = partial(route.ask, call)
        operation, request, named = OPERATIONS[route.operation], call.request, call.request.parameters
        vhost, queue, shard_id, node = named.get("vhost", ""), named.get("queue", named.get("destination")), None, None
        if operation.scope == "shard":
            shard_id = self._shard_id(call, operation.idempotent)
        elif operation.scope == "node":
            node = named.get("node")
            if node is not None and node not in self._dispatcher.names:
                raise Missing()
        elif operation.scope != "catalog":
            if vhost and operation.scope == "shards":
                with call.context.async_broker.runtime as core:
                    call.virtual_host(core)
            request = unpaged(request)
        return self._dispatcher.run(Task(operation, call, request, run, route.cluster, vhost, queue, shard_id, node))

    def _shard_id(self, call: ManagementCall, looks: bool) -> str:
        """The shard of the queue in the path. Only the catalog knows which queues are exclusive: no client may use
        these, or move messages there.
        """
        with call.context.async_broker.runtime as core:
            queue = call.queue(core)
            if not looks:
                core.check_owner(queue, None)
                if call.request.method == "POST" and "destination" in call.body:
                    core.check_owner(call.virtual_host(core).queue(call.field("destination", str)), None)
        return self._dispatcher.shard_id_of(queue.vhost, queue.name)


def unpaged(request: Request) -> Request:
    """The request to those whose rows are merged: the list of all is what is filtered, sorted and cut."""
    fields = [each for each in request.raw_query.split(b"&") if each.partition(b"=")[0] not in LISTING]
    made = Request(request.method, b"?".join((request.raw_path, b"&".join(fields))), request.headers, request.peer)
    made.identity, made.body = request.identity, request.body
    return made
