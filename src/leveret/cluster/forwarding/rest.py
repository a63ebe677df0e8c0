"""REST on a node: requests are authorised, audited and dispatched here; a shard authorises them once more."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leveret.cluster.coordination.placement import stable_hash
from leveret.cluster.forwarding.dispatcher import OperationDispatcher, Task
from leveret.cluster.forwarding.handler import Api
from leveret.protocols.http.idempotency import KEY_HEADER
from leveret.protocols.http.problem import problem
from leveret.protocols.http.response import Answered
from leveret.protocols.http.router import Router
from leveret.protocols.rest.api import RestApi
from leveret.protocols.rest.operation import RestCall, RestOperation
from leveret.protocols.rest.sinks import sink_of

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.observability.audit import Audit
    from leveret.protocols.http.async_broker import AsyncBroker
    from leveret.protocols.http.idempotency import Idempotency
    from leveret.security.access import Access

EDGE = "rest"


class NodeApi(RestApi):
    """Every operation on the queues of a whole cluster."""

    def __init__(
        self, async_broker: AsyncBroker, access: Access, audit: Audit, idempotency: Idempotency, node: Node
    ) -> None:
        """`async_broker` is that of the catalog replica. Other nodes ask this one for its audit log."""
        super().__init__(async_broker, access, audit, None, idempotency)
        self._node = node
        self._dispatcher = OperationDispatcher(node, EDGE)
        node.edges[EDGE] = Api(Router(RestApi(async_broker, access, audit, None, None).routes()), problem)

    def do(self, operation: RestOperation, call: RestCall) -> Answered:
        registered, call.cluster, request = operation.registered, self._dispatcher, call.request
        queue, shard_id = request.parameters.get("queue") or request.parameters.get("stream"), None
        if registered.scope == "shard":  # which reads the body
            run = partial(RestApi.do, self, operation, call)
            shard_id = self._shard_id(call, queue)
        else:
            self.read(operation, call)
            run, queue = partial(operation.run, call), queue or call.body.get("destination")
        resend = KEY_HEADER in request.headers and "Idempotency-Key" in operation.headers
        return self._dispatcher.run(
            Task(registered, call, request, run, operation.cluster, call.vhost, queue, shard_id, None, resend)
        )

    def _shard_id(self, call: RestCall, queue: str | None) -> str | None:
        """The shard of the sink that the path names, or of the queue if every client may use it."""
        if queue is None:
            shard_ids = self._dispatcher.all_shard_ids()
            return shard_ids[stable_hash("sink", *sink_of(call)) % len(shard_ids)]
        vhost = call.async_broker.runtime.core.topology.vhosts.get(call.vhost)
        found = None if vhost is None else vhost.queues.get(queue)
        return None if found is None or found.owner is not None else self._node.shard_id_of(call.vhost, queue)
