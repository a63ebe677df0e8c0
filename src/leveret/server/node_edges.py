"""REST and SQS of a node, put together: what its clients ask, and what its shards answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from leveret.cluster.catalog.catalog import Verb
from leveret.cluster.catalog.changes import DefinitionChange
from leveret.cluster.forwarding.edges import Api
from leveret.cluster.forwarding.management import NodeManagement
from leveret.cluster.forwarding.rest import NodeApi
from leveret.cluster.forwarding.rows import EDGE as ROWS
from leveret.cluster.forwarding.rows import ClusterRows
from leveret.cluster.forwarding.shard_edges import ShardApis
from leveret.cluster.forwarding.sqs import NodeService
from leveret.cluster.node import Node
from leveret.config import ServerOptions
from leveret.core.broker import Broker as Core
from leveret.core.catalog import Kind
from leveret.observability.audit import Audit
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.idempotency import Idempotency
from leveret.protocols.http.limits import Throttle
from leveret.protocols.http.problem import problem
from leveret.protocols.sqs.account import Account
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access
from leveret.server.web import quota_of, settings_of, sinks_of

T = TypeVar("T")


class CatalogBroker(AsyncBroker):
    """An asynchronous broker over the catalog replica, without messages: changes are decided for the whole cluster."""

    def __init__(self, runtime: Runtime, decide: Callable[[Verb], Awaitable[Any]]) -> None:
        """`decide` runs a verb for all nodes: see Node.decide."""
        super().__init__(runtime)
        self._decide = decide

    def change(self, action: Callable[[Core], T]) -> T | Awaitable[T]:
        """See AsyncBroker; the answer comes when no node answers by what was before."""
        return self.in_thread(lambda: action(self.runtime.core))

    def in_thread(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run verbs of Broker and Queue, for all nodes."""
        return asyncio.ensure_future(self._decide(lambda core: function()))


class NodeEdges:
    """What all requests of a node share."""

    def __init__(
        self, options: ServerOptions, runtime: Runtime, access: Access, decide: Callable[[Verb], Awaitable[Any]]
    ) -> None:
        """`runtime` is that of the copy of the catalog; there is no node yet."""
        self._options = options
        self._access = access
        self._quota = quota_of(options)
        self._node: Node | None = None
        self.async_broker = CatalogBroker(runtime, decide)
        self.account = Account(runtime, access, self.async_broker, settings_of(options))
        self.management = NodeManagement()
        self._made: list[ShardApis] = []

    def make_apis(self, shard_id: str, runtime: Runtime) -> ShardApis:
        """The APIs of a shard that the node begins to serve."""
        settings = self.account.settings
        sinks = None
        if runtime.large is not None:
            assert self._node is not None, "shards that last are served by a node that was joined"
            # What was decided goes on in the next turn of the loop: by then the shard has its queues.
            sinks = sinks_of(self._options, runtime, self._quota, self._node.outboxes[shard_id])
        made = ShardApis(shard_id, runtime, self._access, settings, self.account, self.management, sinks)
        made.account.set_alarm(self.account.alarm)
        self._made = [*(each for each in self._made if not each.closed), made]
        return made

    def join(self, node: Node) -> None:
        """Hear what other nodes decide and ask; before the node starts."""
        self._node = node
        node.catalog.replica.followers.append(self._hear)

    def api(self, node: Node, audit: Audit, idempotency: Idempotency) -> NodeApi:
        """REST for clients of the node."""
        made = NodeApi(self.async_broker, self._access, audit, idempotency, node)
        node.edges[ROWS] = Api(ClusterRows(node).answer, problem)
        return made

    def service(self, node: Node, throttle: Throttle, audit: Audit) -> NodeService:
        """SQS for clients of the node."""
        made = NodeService(self.account, throttle, node)
        made.audit = audit
        return made

    def set_alarm(self, reason: str | None) -> None:
        """Refuse sends of SQS into shards of this node for a reason, or take them again."""
        self.account.set_alarm(reason)
        for each in self._made:
            each.account.set_alarm(reason)

    def _hear(self, change: DefinitionChange) -> None:
        """What SQS knows about a queue was changed by another node."""
        if change.kind == Kind.QUEUE_DETAILS:
            self.account.hear(change.definition)
