"""The APIs of one shard: the same code as on a single server, over the broker of the shard."""

from collections.abc import Mapping
from typing import Any

from leveret.cluster.forwarding import rest, sqs
from leveret.cluster.forwarding.handler import Api
from leveret.cluster.forwarding.management import EDGE as MANAGEMENT
from leveret.cluster.forwarding.management import NodeManagement
from leveret.cluster.forwarding.remote_operations import EDGE as OPERATIONS
from leveret.cluster.forwarding.remote_operations import operations_api
from leveret.ingest.sinks import Sinks
from leveret.operations.context import OperationContext
from leveret.operations.perform import durably
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.problem import problem
from leveret.protocols.http.router import Router
from leveret.protocols.management.queues import row_of
from leveret.protocols.rest import queues, streams
from leveret.protocols.rest.api import RestApi
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.service import Service
from leveret.protocols.sqs.settings import Settings
from leveret.runtime.managed import ManagedQueue
from leveret.runtime.runtime import Runtime
from leveret.runtime.stream import RuntimeStream
from leveret.security.access import Access


class ShardApis:
    """REST, SQS and management, for requests that were authenticated and counted by a node."""

    def __init__(
        self,
        shard_id: str,
        runtime: Runtime,
        access: Access,
        settings: Settings,
        cluster: Account,
        management: NodeManagement,
        sinks: Sinks | None,
    ) -> None:
        """`cluster` has the queues of all shards, as SQS knows them; `management` is that of the node."""
        self._runtime = runtime
        self.async_broker = AsyncBroker(runtime, access=access)
        self.account = Account(runtime, access, self.async_broker, settings, cluster)
        self.closed = False
        self._managed = management.add(shard_id, runtime, self.async_broker)
        self._api = RestApi(self.async_broker, access, None, sinks, None)
        service = Service(self.account, None)
        self.by_name: Mapping[str, Api] = {
            rest.EDGE: Api(Router(self._api.routes()), problem),
            sqs.EDGE: Api(service, service.refuse),
            MANAGEMENT: self._managed.edge,
            OPERATIONS: operations_api(
                durably(runtime),
                OperationContext(runtime.core, access, runtime=runtime),
                "shard",
                "shards",
            ),
        }

    def describe(self, kind: str, vhost: str, name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        with self._runtime as core:
            virtual_host = core.topology.vhosts.get(vhost)
            queue = None if virtual_host is None else virtual_host.queues.get(name)
            if queue is None:
                return None
            if kind == "queues":
                return queues.shown(ManagedQueue(self._runtime, queue))
            if kind == MANAGEMENT:
                return row_of(self._managed.context, core, queue, options)
        return streams.shown(RuntimeStream(self._runtime, queue)) if kind == "streams" else {}

    def close(self) -> None:
        self.closed = True
        self._api.close()
        self.account.close()
        self.async_broker.close()
        self._managed.close()
