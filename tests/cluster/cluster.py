"""Nodes of one process with shards in memory, links on loopback, and fixed owners: what pika sees of a cluster."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import pika

import leveret
from leveret.clock import SystemClock
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.coordination.placement import LOCAL, Placements
from leveret.cluster.forwarding.handler import MakeApis, no_apis
from leveret.cluster.node import Node
from leveret.cluster.proxy.connection import ProxyConnection
from leveret.cluster.shards.shard import Shard
from leveret.embedded.broker import Broker
from leveret.protocols.amqp.connection import AmqpPeer
from leveret.protocols.amqp.hub import Hub
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.server import AmqpServer
from leveret.protocols.net.admission import ConnectionBudget
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access
from leveret.security.passwords import hash_password
from tests.cluster.coordination.memory_log import MemoryLog
from tests.cluster.peer import KEYS
from tests.protocols.amqp.client import CHEAP
from tests.waiting import PATIENCE_S, wait_until

SHARDS = 4
T = TypeVar("T")


def place(name: str) -> str:
    """The shard that a queue of this name gets."""
    return str(Placements(SHARDS).choose("/", name, None))


def name_in(shard: int, prefix: str) -> str:
    """The name of a queue that gets into a shard."""
    return next(name for name in (f"{prefix}{i}" for i in range(100)) if place(name) == str(shard))


class Served:
    """A broker in memory, behind the hub of a shard or of the fronts."""

    def __init__(self, access: Access | None = None, connect: Any = None, broker: Broker | None = None) -> None:
        self.broker = broker or leveret.open()
        self.shard: Shard | None = None
        with self.broker.runtime as core:
            self.access = access or Access(core, None, cost=CHEAP)
        more = {} if connect is None else {"connect": connect}
        self.server = AmqpServer(
            self.broker.runtime, self.access, AmqpLimits(), ConnectionBudget(100, 100, 100), **more
        )

    async def close(self) -> None:
        await self.server.drain(320, "CONNECTION_FORCED - the test is over", 1)
        self.broker.close()


class OneNode:
    """A node, its fronts and its shards."""

    def __init__(self, name: str, cluster: "Cluster", make_apis: MakeApis) -> None:
        self.name = name
        self.make_apis = make_apis
        self.cluster = cluster
        self.catalog = ClusterCatalog(cluster.log, name, SHARDS)
        runtime = Runtime(self.catalog.replica.broker, self.catalog.replica.lock, SystemClock())
        self.proxies = Served(connect=self.connect, broker=Broker(runtime))
        self.node = Node(name, "test", KEYS, self.catalog, self.proxies.server.hub, cluster)
        self.shards: dict[str, Served] = {}
        self.port = 0

    def connect(self, hub: Hub, peer: AmqpPeer) -> ProxyConnection:
        return self.node.connect(peer)

    async def start(self) -> None:
        self.cluster.addresses[self.name] = ("127.0.0.1", await self.node.start("127.0.0.1", 0))
        access = self.proxies.access
        if not len(access.users):
            await self.node.decide(lambda core: access.add_default_user("guest", hash_password("guest", CHEAP)))
        bound = socket.create_server(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        self.proxies.server.listen(bound)
        self.serve(LOCAL + self.name, Served(self.proxies.access))

    def serve(self, shard_id: str, served: Served) -> None:
        """Serve a shard."""
        self.shards[shard_id] = served
        self.node.prepare(shard_id, served.broker.runtime.core)
        served.shard = served.shard or Shard(shard_id, served.server.hub)
        served.shard.edges = self.make_apis(shard_id, served.broker.runtime)
        self.node.serve(served.shard)

    def hand_over(self, shard_id: str) -> Served:
        """Serve a shard no more, and give what is in it."""
        self.node.forsake(shard_id)
        return self.shards.pop(shard_id)

    async def stop(self) -> None:
        self.proxies.server.stop_listening()
        await self.node.stop()
        for served in (self.proxies, *self.shards.values()):
            await served.close()


class Cluster:
    """Some nodes, in the loop of a thread."""

    def __init__(self, *names: str, make_apis: MakeApis = no_apis, member: type[OneNode] = OneNode) -> None:
        self.make_apis = make_apis
        self.member = member
        self.log = MemoryLog()
        self.addresses: dict[str, tuple[str, int]] = {}
        self.owners: dict[str, str] = {}
        self.members: dict[str, OneNode] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        for name in names:
            self.run(self._add(name))
        for shard in range(SHARDS):
            name = names[shard % len(names)]
            self.owners[str(shard)] = name
            self.call(partial(self._serve, name, str(shard)))
        self.run(self._linked())

    def _serve(self, name: str, shard_id: str) -> None:
        self.members[name].serve(shard_id, Served(self.members[name].proxies.access))

    async def _add(self, name: str) -> None:
        self.members[name] = self.member(name, self, self.make_apis)
        await self.members[name].start()

    async def _linked(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while any(len(each.node.links) < len(self.members) - 1 for each in self.members.values()):
                await asyncio.sleep(0.01)

    # What nodes ask

    def owner_of(self, shard_id: str) -> str | None:
        return self.owners.get(shard_id)

    def address_of(self, node: str) -> tuple[str, int] | None:
        return self.addresses.get(node)

    def nodes(self) -> list[str]:
        return list(self.addresses)

    # What tests do

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(job, self._loop).result(PATIENCE_S)

    def call(self, job: Callable[[], T]) -> T:
        async def called() -> T:
            return job()

        return self.run(called())

    def connect(
        self, name: str, user: str = "guest", password: str = "guest", vhost: str = "/"
    ) -> pika.BlockingConnection:
        """A client of a node."""
        credentials = pika.PlainCredentials(user, password)
        port = self.members[name].port
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, vhost, credentials))

    def sweep(self) -> None:
        """What every node does once a second."""
        for member in self.members.values():
            self.call(member.proxies.server.hub.sweep)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Look until something holds."""
        wait_until(holds)

    async def settled(self) -> None:
        """Return when no node has anything left to decide."""
        for member in self.members.values():
            await member.node.decide(lambda core: None)

    def remove(self, name: str) -> None:
        """End a node; nobody has its shards then."""
        self.run(self.members.pop(name).stop())
        del self.addresses[name]

    def move(self, shard_id: str, target: str) -> None:
        """Give a shard to another node, with what is in it."""

        def move() -> None:
            served = self.members[self.owners.pop(shard_id)].hand_over(shard_id)
            self.members[target].serve(shard_id, served)
            self.owners[shard_id] = target
            self.members[target].node.look()

        self.call(move)

    def close(self) -> None:
        for member in self.members.values():
            self.run(member.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
