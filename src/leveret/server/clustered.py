"""The server process of a node: the fronts that clients talk to, and the shards that it owns.

bind ports -> join -> accept -> ready -> ... SIGTERM -> accept no more -> clients leave -> shards go to others -> leave
"""

import asyncio
import socket

import uvloop

from leveret.amqp.connection import Peer
from leveret.amqp.hub import Hub
from leveret.amqp.replies import Reply
from leveret.amqp.server import AmqpServer
from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.embedded.broker import Broker, open
from leveret.net.admission import Admission
from leveret.node.front.connection import FrontConnection
from leveret.node.joined import Joined, Place, opening
from leveret.security.access import Access
from leveret.security.tls import Certificates
from leveret.server.addresses import WITH_TLS, Sockets, bound_sockets
from leveret.server.process import CLOSE_TEXT, LOG, Server, certificates_of, limits_of, noticed, raise_file_limit
from leveret.server.settings import broker_options
from leveret.telemetry.logs import start_logging, stop_logging

AMQP = ("amqp", "amqps")


def serve_node(options: ServerOptions) -> int:
    """Serve until a signal comes; gives the exit code. Raises what keeps it from starting."""
    handler = start_logging(options.log_level, options.log_format)
    try:
        certificates = certificates_of(options)
        with bound_sockets(options) as sockets, open() as broker:
            amqp = {name: bound for name, bound in sockets.items() if name in AMQP}
            server = NodeServer(options, broker, certificates, amqp)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(server.run())
        LOG.info("stopped")
    finally:
        stop_logging(handler)
    return 0


def place_of(options: ServerOptions) -> Place:
    """Which node of which cluster the options name."""
    if options.cluster is None or options.store is None or options.etcd is None:
        raise InvalidArgument("a node needs the options cluster, store and etcd")
    return Place(
        node=options.node or socket.gethostname(),
        cluster=options.cluster,
        secret=options.cluster_secret.encode(),
        store=options.store,
        etcd=tuple(each.strip() for each in options.etcd.split(",")),
        host=options.host.split(",")[0],
        port=options.cluster_port,
        shards=options.cluster_shards,
        ttl_s=options.cluster_lease_s,
    )


class NodeServer(Server):
    """Everything that runs while a node serves clients; its broker has the definitions, and no messages."""

    def __init__(
        self, options: ServerOptions, broker: Broker, certificates: Certificates | None, sockets: Sockets
    ) -> None:
        """Nothing runs yet."""
        super().__init__(options, broker, certificates, sockets)
        self._place = place_of(options)
        self._joined: Joined | None = None

    def _connect(self, hub: Hub, peer: Peer) -> FrontConnection:
        assert self._joined is not None, "nobody is let in before"
        return self._joined.node.connect(peer)

    async def run(self) -> None:
        """Serve until a signal comes."""
        options, guard = self._options, self._broker.guard
        raise_file_limit(options.connections_max)
        with guard as core:
            access = Access(core, self._default_user())
        admission = Admission(options.connections_max, options.connections_per_ip_max, options.half_open_max)
        amqp = AmqpServer(guard, access, limits_of(options), admission, self._connect)
        guard.on_durable(amqp.durable)
        shards = opening(self._place, **broker_options(options))
        self._joined = Joined(self._place, amqp.hub, access, limits_of(options), shards)
        self._handle_signals()
        await self._joined.start(self._addresses())
        for name, sockets in self._sockets.items():
            for bound in sockets:
                amqp.listen(bound, self._current_context if name in WITH_TLS else None)
        self._announce()
        alive = noticed(asyncio.create_task(self._stay_alive()))
        await self._stopping.wait()
        amqp.stop_listening()
        self._supervisor.stopping()
        LOG.info("stopping", signal=self._signal)
        await self._joined.drain()
        await amqp.drain(Reply.CONNECTION_FORCED, CLOSE_TEXT, options.drain_s)
        await self._joined.stop()
        alive.cancel()
