"""The port for SQS of one of two nodes, without a port: what tests of a single server ask, asked of a cluster."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import leveret
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.forwarding.sqs import NodeService
from leveret.cluster.node import Node
from leveret.cluster.shards.shard import Shard
from leveret.config import ServerOptions
from leveret.core.errors import LeveretError
from leveret.embedded.broker import Broker
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.wire import Answer
from leveret.runtime.runtime import Runtime
from leveret.runtime.shared.limits import RateLimit
from leveret.server.clustered import NodeEdges
from tests.cluster.cluster import SHARDS, Served
from tests.cluster.coordination.memory_log import MemoryLog
from tests.cluster.peer import KEYS
from tests.protocols.sqs.world import World


class Member:
    """A node whose clock is that of the test."""

    def __init__(self, name: str, world: "NodeWorld") -> None:
        self.catalog = ClusterCatalog(world.log, name, SHARDS)
        runtime = Runtime(self.catalog.replica.broker, self.catalog.replica.lock, world.clock)
        self.proxy = Served(broker=Broker(runtime))
        self.node = Node(name, "test", KEYS, self.catalog, self.proxy.server.hub, world)
        told: dict[str, Any] = {f"sqs_{each}": value for each, value in world.told.items()}
        options = ServerOptions(**{"sqs_auth": "off", **told})
        self.edges = NodeEdges(options, runtime, self.proxy.access, self.node.decide)
        self.edges.join(self.node)
        self.shards: list[Served] = []

    def serve(self, shard_id: str, clock: leveret.ManualClock) -> None:
        served = Served(self.proxy.access, broker=leveret.open(clock=clock))
        self.shards.append(served)
        self.node.prepare(shard_id, served.broker.runtime.core)
        self.node.serve(Shard(shard_id, served.server.hub, self.edges.make_apis(shard_id, served.broker.runtime)))

    async def stop(self) -> None:
        for shard_id in list(self.node.shards):
            self.node.forsake(shard_id)
        await self.node.stop()
        for served in (self.proxy, *self.shards):
            await served.close()


class Answering(NodeService):
    """A service whose refusals are answers, also late ones: elsewhere the HTTP server makes them so."""

    def __call__(self, request: Request) -> Answer:
        answer = super().__call__(request)
        return self._told(answer) if isinstance(answer, Awaitable) else answer

    async def _told(self, answer: Awaitable[Response]) -> Response:
        try:
            return await answer
        except LeveretError as error:
            return self.refuse(error)


class NodeWorld(World):
    """Requests come to one node, at first to a; each has half of the queues."""

    def __init__(self, path: str | None = None, limit: RateLimit | None = None, **settings: Any) -> None:
        self.told = settings
        self.log = MemoryLog()
        self.addresses: dict[str, tuple[str, int]] = {}
        super().__init__(path, limit, **settings)

    def open(self) -> None:
        self._runner.run(self._start())

    async def _start(self) -> None:
        self.members = {name: Member(name, self) for name in "ab"}
        for name, member in self.members.items():
            self.addresses[name] = ("127.0.0.1", await member.node.start("127.0.0.1", 0))
        for shard in range(SHARDS):
            self.members["ab"[shard % 2]].serve(str(shard), self.clock)
        while not all(member.node.links for member in self.members.values()):
            await asyncio.sleep(0.01)
        self.ask("a")

    def ask(self, name: str) -> None:
        """Let requests come to a node from now on."""
        asked = self.members[name]
        self.broker, self.access = asked.proxy.broker, asked.proxy.access
        self.async_broker, self.account = asked.edges.async_broker, asked.edges.account
        self.service = Answering(asked.edges.account, self.throttle, asked.node)

    async def _stop(self) -> None:
        for member in self.members.values():
            await member.stop()

    def close(self) -> None:
        self._runner.run(self._stop())

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for member in self.members.values():
            for served in member.shards:
                with served.broker.runtime:
                    pass
        super().later(0)

    # What nodes ask

    def owner_of(self, shard_id: str) -> str | None:
        return "ab"[int(shard_id) % 2]

    def address_of(self, node: str) -> tuple[str, int] | None:
        return self.addresses.get(node)

    def nodes(self) -> list[str]:
        return list(self.addresses)
