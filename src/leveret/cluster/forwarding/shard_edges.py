"""The APIs of one shard: the same code as on a single server, over the broker of the shard."""

from __future__ import annotations

from collections.abc import Mapping

from leveret.cluster.forwarding import rest, sqs
from leveret.cluster.forwarding.edges import Edge
from leveret.cluster.forwarding.management import EDGE as MANAGEMENT
from leveret.cluster.forwarding.management import NodeManagement
from leveret.embedded.broker import Broker
from leveret.ingest.sinks import Sinks
from leveret.protocols.http.async_broker import Desk
from leveret.protocols.http.problem import problem
from leveret.protocols.http.router import Router
from leveret.protocols.rest.api import RestApi
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.service import Service
from leveret.protocols.sqs.settings import Settings
from leveret.security.access import Access


class ShardEdges:
    """REST, SQS and management; who asks is known by then, and may ask so often."""

    def __init__(
        self,
        home: str,
        broker: Broker,
        access: Access,
        settings: Settings,
        everywhere: Account,
        management: NodeManagement,
        sinks: Sinks | None,
    ) -> None:
        """`everywhere` has the queues of all shards, as SQS knows them; `management` is that of the node."""
        self.broker: Broker | None = broker
        self.desk = Desk(broker, access=access)
        self.account = Account(broker, access, self.desk, settings, everywhere)
        self.closed = False
        self._managed = management.furnish(home, broker, self.desk)
        self._api = RestApi(self.desk, access, None, sinks, None)
        service = Service(self.account, None)
        self.by_name: Mapping[str, Edge] = {
            rest.EDGE: Edge(Router(self._api.routes()), problem),
            sqs.EDGE: Edge(service, service.refuse),
            MANAGEMENT: self._managed.edge,
        }

    def close(self) -> None:
        """See Edges."""
        self.closed = True
        self._api.close()
        self.account.close()
        self.desk.close()
        self._managed.close()
