"""The server process of a node: the proxies that clients talk to, and the shards that it owns.

bind ports -> join -> accept -> ready -> ... SIGTERM -> accept no more -> clients leave -> shards go to others -> leave
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from leveret.clock import SystemClock
from leveret.cluster.catalog.catalog import ClusterCatalog, Verb
from leveret.cluster.catalog.changes import DefinitionChange
from leveret.cluster.catalog.log import PostgresLog
from leveret.cluster.forwarding.dispatcher import ROWS_EDGE, ClusterRows
from leveret.cluster.forwarding.handler import Api
from leveret.cluster.forwarding.logins import Logouts
from leveret.cluster.forwarding.management import NodeManagement
from leveret.cluster.forwarding.remote_operations import RemoteOperations
from leveret.cluster.forwarding.rest import NodeApi
from leveret.cluster.forwarding.shard_edges import ShardApis
from leveret.cluster.forwarding.sqs import NodeService
from leveret.cluster.joined import JoinedNode, NodeSettings, moving
from leveret.cluster.node import Node
from leveret.cluster.operations import Operations
from leveret.cluster.proxy.connection import ProxyConnection
from leveret.config import ServerOptions
from leveret.core.broker import Broker as Core
from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument
from leveret.embedded.broker import Broker
from leveret.observability.audit import Audit
from leveret.observability.logs import start_logging, stop_logging
from leveret.operations.context import OperationContext
from leveret.protocols.amqp.connection import AmqpPeer
from leveret.protocols.amqp.hub import Hub
from leveret.protocols.amqp.server import AmqpServer
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.idempotency import Idempotency
from leveret.protocols.http.limits import Throttle
from leveret.protocols.http.problem import problem
from leveret.protocols.management.context import AdminContext
from leveret.protocols.net.addresses import announced_host
from leveret.protocols.net.admission import Admissions
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.queue_actions import kept_details
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access
from leveret.security.cluster_secret import PEERS, cluster_keys
from leveret.security.tls import ClientTls, MutualTls, ServerTls
from leveret.server.addresses import Sockets, announced, bound_sockets
from leveret.server.authentication import authentication_of, oauth_of
from leveret.server.control import ControlServer, RemoteControl
from leveret.server.first_user import make_first_user
from leveret.server.management import alerting_of, make_admin_context
from leveret.server.process import (
    LOG,
    ServerProcess,
    audit_of,
    held,
    limits_of,
    new_event_loop,
    raise_file_limit,
    tls_of,
    warn_of_patterns,
)
from leveret.server.settings import broker_options
from leveret.server.web import Shared, SqsServer, Web, quota_of, settings_of, sinks_of

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
        made = NodeApi(self.async_broker, self._access, audit, idempotency, node)
        node.edges[ROWS_EDGE] = Api(ClusterRows(node).answer, problem)
        return made

    def service(self, node: Node, throttle: Throttle, audit: Audit) -> NodeService:
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


def serve_node(options: ServerOptions) -> int:
    """Serve until a signal comes; gives the exit code. Raises what keeps it from starting."""
    handler = start_logging(options.log_level, options.log_format)
    try:
        tls = tls_of(options)
        with (
            bound_sockets(options) as sockets,
            held(options),
            audit_of(options, SystemClock()) as audit,
            asyncio.Runner(loop_factory=new_event_loop) as runner,
        ):
            runner.run(NodeServer(options, tls, sockets, audit).run())
        LOG.info("stopped")
    finally:
        stop_logging(handler)
    return 0


def place_of(options: ServerOptions) -> NodeSettings:
    """Which node of which cluster the options name."""
    if options.cluster is None or options.store is None or options.etcd is None:
        raise InvalidArgument("a node needs the options cluster, store and etcd")
    host = options.host.split(",")[0].strip()
    return NodeSettings(
        node=options.node or socket.gethostname(),
        cluster=options.cluster,
        keys=cluster_keys(options, PEERS),
        store=options.store,
        etcd=tuple(each.strip() for each in options.etcd.split(",")),
        etcd_login=(options.etcd_user or "", options.etcd_password),
        etcd_tls=etcd_tls_of(options),
        host=host,
        announce=options.announce or announced_host(host),
        port=options.cluster_port,
        tls=link_tls_of(options),
        plain_remote=options.cluster_plain,
        shards=options.cluster_shards,
        ttl_s=options.cluster_lease_s,
        epoch_base=options.cluster_epoch_base,
    )


def link_tls_of(options: ServerOptions) -> MutualTls | None:
    """What nodes speak with each other under, if there are certificates."""
    cert, key, authority = options.cluster_tls_cert, options.cluster_tls_key, options.cluster_tls_ca
    return MutualTls(cert, key, authority, options.cluster_tls_crl) if cert and key and authority else None


def etcd_tls_of(options: ServerOptions) -> ClientTls | None:
    """What etcd is spoken with under, if that is not left to the machine."""
    files = (options.etcd_tls_ca, options.etcd_tls_cert, options.etcd_tls_key)
    return ClientTls(*files) if any(files) else None


class NodeServer(ServerProcess):
    """Everything that runs while a node serves clients; its broker is the copy of the catalog, without messages."""

    def __init__(self, options: ServerOptions, tls: ServerTls | None, sockets: Sockets, audit: Audit) -> None:
        self._place = place_of(options)
        self._log = PostgresLog(self._place.store)
        self._catalog = ClusterCatalog(self._log, self._place.node, self._place.shards, self._place.ttl_s)
        replica = self._catalog.replica
        runtime = Runtime(replica.broker, replica.lock, SystemClock())
        super().__init__(options, Broker(runtime), tls, sockets, audit)
        self._joined: JoinedNode | None = None
        if self._place.tls is not None:
            self._tls_files.add("links", self._place.tls, self._place.tls.crl, self._close_revoked)
        if self._place.etcd_tls is not None:
            self._tls_files.add("etcd", self._place.etcd_tls, None, lambda: None)

    def _connect(self, hub: Hub, peer: AmqpPeer) -> ProxyConnection:
        assert self._joined is not None, "no client is let in before"
        return self._joined.node.connect(peer)

    def _close_revoked(self) -> None:
        """Close the links to nodes whose certificates are on a new revocation list."""
        if self._joined is not None:
            self._joined.node.peers.close_revoked()

    async def run(self) -> None:
        options, runtime = self._options, self._broker.runtime
        admissions = Admissions.of(options)
        raise_file_limit(admissions)
        with runtime as core:
            access = Access(core, None)
        access.password_chars_min = options.password_chars_min
        shared = Shared(options, runtime.clock)
        oauth = oauth_of(options)
        authentication = authentication_of(options, access, shared.failures("token"), oauth)
        amqp = AmqpServer(runtime, access, limits_of(options), admissions.amqp, self._connect, authentication)
        amqp.hub.audit, amqp.hub.node = self._audit, self._place.node
        shards = moving(self._place, **broker_options(options))
        edges = NodeEdges(options, runtime, access, self._decide)
        limits = limits_of(options)
        self._joined = joined = JoinedNode(
            self._place, self._catalog, amqp.hub, access, limits, shards, edges.make_apis
        )
        edges.join(joined.node)
        self._handle_signals()
        sharing = await shared.start(access.users)
        await joined.start(announced(self._sockets, self._place.announce))
        await make_first_user(options, self._sockets, access, lambda verb: joined.node.decide(lambda core: verb()))
        with runtime as core:
            warn_of_patterns(core, access)
        audit = self._audit
        operations = self._operations(joined, amqp, access, edges, shared)
        api = edges.api(joined.node, audit, shared.idempotency)
        web = Web(
            options,
            edges.async_broker,
            api,
            access,
            admissions.http,
            audit,
            runtime.clock,
            shared,
            authentication,
            oauth,
        )
        admin_context = self._manage(web, joined.node, operations, amqp, edges, audit)
        joined.closing.append(Logouts(joined.node, web.sessions, web.login).close)
        control = ControlServer(partial(_decided, joined.node), operations, options.data, audit)
        await control.start()
        service = edges.service(joined.node, shared.throttle, audit)
        sqs = SqsServer(options, edges.account, service, admissions.sqs, shared.budget)
        self._listen(amqp, web, sqs)
        jobs = admin_context.rates.run(), admin_context.alerts.run(options.alerts_every_s), *sharing
        background = await self._serve((amqp, web, sqs), self._watch(amqp, edges, joined.node), *jobs)
        await control.stop()
        await joined.drain()
        joined.node.forwarder.close()
        await self._send_away(amqp, web, sqs)
        try:
            await joined.stop()
        finally:
            await self._log.close()  # else a thread would wait for a database that hangs, and the process for it
        for task in background:
            task.cancel()
        await shared.stop()
        self._broker.close()

    def _operations(
        self, joined: JoinedNode, amqp: AmqpServer, access: Access, edges: NodeEdges, shared: Shared
    ) -> OperationContext:
        runtime, shards = self._broker.runtime, edges.management.runtimes
        alerts = alerting_of(self._options, runtime, shards, self._decide)
        joined.node.catalog.replica.followers.append(
            lambda change: alerts.book.follow(change.kind, change.definition, change.removed)
        )
        cluster = Operations(joined, self._drained, shared.told)
        facts, verbs = partial(self._facts, amqp), RemoteOperations(joined.node)
        operations = OperationContext(
            runtime.core, access, facts, alerts, shards, cluster, verbs, self._audit, check_details=kept_details
        )
        verbs.serve(operations)
        return operations

    def _manage(
        self, web: Web, node: Node, operations: OperationContext, amqp: AmqpServer, edges: NodeEdges, audit: Audit
    ) -> AdminContext:
        """Let the node answer management, console, scrapes and verbs."""
        assert isinstance(operations.cluster, Operations), "and a cluster"
        files = self._sockets, self._tls_files
        alone = make_admin_context(self._options, edges.async_broker, operations, amqp, *files, node.name)
        admin_context = edges.management.join(node, alone, operations.cluster)
        web.stale = node.stale_clients.wait
        web.manage(admin_context)
        web.operate(RemoteControl(partial(_decided, node), operations, audit))
        return admin_context

    async def _decide(self, verb: Verb) -> Any:
        assert self._joined is not None, "requests come only afterwards"
        return await self._joined.node.decide(verb)

    def _is_full(self) -> bool:
        """Whether the journal of some shard has no room for publishes."""
        shards = [] if self._joined is None else self._joined.node.shards.values()
        return any(shard.hub.core.journal.full for shard in shards)

    def _drained(self) -> None:
        """An operator wants this node to go, and others have its shards."""
        self._signal = "drain"
        self._stopping.set()


async def _decided(node: Node, verb: Callable[[], Any]) -> Any:
    """Do what an operator asks for on every node."""
    stale = node.stale_clients.wait()
    if stale is not None:
        await stale
    return await node.decide(lambda core: verb())
