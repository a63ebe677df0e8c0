"""Nodes of one process that serve management, console and scrapes as well."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

from leveret.cluster.forwarding.handler import MakeApis
from leveret.cluster.forwarding.logins import Logouts
from leveret.cluster.forwarding.remote_operations import RemoteOperations
from leveret.operations.context import OperationContext as Ground
from leveret.operations.perform import perform
from leveret.protocols.management.context import AdminContext
from leveret.server.control import RemoteControl
from leveret.server.management import alerting_of, make_admin_context
from leveret.server.tls_files import TlsFiles
from tests.cluster.cluster import Cluster
from tests.cluster.web_cluster import WebCluster, WebNode
from tests.protocols.management.scene import Api

COUNTS = ("takeovers", "takeovers_failed", "takeover_ms", "shards_lost", "shards", "vacant", "definitions", "forwarded")


class Operator:
    """A cluster whose shards are where tests put them."""

    def __init__(self, node: "ManagedNode") -> None:
        self._node = node.node
        self.draining = False
        self.rebalanced = 0

    @property
    def links(self) -> list[str]:
        return sorted(self._node.links)

    @property
    def successors(self) -> list[str]:
        return self.links

    async def status(self) -> dict[str, Any]:
        nothing: dict[str, list[Any]] = {name: [] for name in ("members", "groups", "shards", "doubts")}
        return {"cluster": "test", "node": self._node.name, "definitions": 1, **nothing}

    async def drain(self, stay: bool = False) -> dict[str, Any]:
        self.draining = True
        return {"node": self._node.name, "stays": stay}

    async def rebalance(self) -> dict[str, Any]:
        self.rebalanced += 1
        return {}

    def figures(self) -> dict[str, Any]:
        links = dict.fromkeys(self.links, True)
        outbox = {"outbox": 0, "outbox_oldest_ms": 0, "outbox_stuck": 0}
        more = {"links": links, "link_bytes": self._node.peers.bytes(), **outbox}
        troubles = ("etcd_trouble", "store_trouble", "definitions_trouble", "doubtful")
        return {**dict.fromkeys((*COUNTS, *troubles), 0), **more}


class ManagedNode(WebNode):
    """A node with everything that operators ask."""

    def __init__(self, name: str, cluster: Cluster, make_apis: MakeApis) -> None:
        super().__init__(name, cluster, make_apis)
        self._folder = TemporaryDirectory()
        self.operator = Operator(self)
        options = replace(self.options, data=self._folder.name)
        access, runtime, shards = self.proxies.access, self.proxies.broker.runtime, self.edges.management.runtimes
        self.alerts = alerting_of(options, runtime, shards, self.node.decide)
        self.catalog.replica.followers.append(
            lambda change: self.alerts.book.follow(change.kind, change.definition, change.removed)
        )
        verbs = RemoteOperations(self.node)
        ground = Ground(runtime.core, access, alerts=self.alerts, shards=shards, remote=verbs, audit=self.audit)
        verbs.serve(ground)
        self.ground = ground
        proxies = self.proxies.server
        files = TlsFiles(None, runtime.clock)
        alone = make_admin_context(options, self.edges.async_broker, ground, proxies, {}, files, name)
        self.context: AdminContext = self.edges.management.join(self.node, alone, self.operator)
        self.web.manage(self.context)
        self.web.operate(RemoteControl(self.decided, ground, self.audit))
        self.logouts = Logouts(self.node, self.web.sessions, self.web.login)

    async def decided(self, verb: Callable[[], Any]) -> Any:
        """Do what an operator asks for on every node."""
        return await self.node.decide(lambda core: verb())

    async def stop(self) -> None:
        await self.logouts.close()
        await super().stop()
        await asyncio.to_thread(self._folder.cleanup)


async def _all_threads() -> None:
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(40)))


class ManagedCluster(WebCluster):
    """Some of them."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names, member=ManagedNode)

    def start_threads(self) -> None:
        """Start whatever threads there may be: none is to appear in the middle of a test."""
        for name in self.members:
            self.connect(name).close()  # one for passwords, which stays
        self.run(_all_threads())

    def managed(self, name: str) -> ManagedNode:
        """One of them."""
        node = self.members[name]
        assert isinstance(node, ManagedNode)
        return node

    def api(self, name: str, user: str = "guest", password: str = "guest") -> Api:
        """A client of the management API of a node."""
        return Api(self.at(name).http_port, user, password)

    def operate(self, name: str, verb: str, /, **arguments: Any) -> Any:
        """Do what an operator of a node asks for."""
        node = self.managed(name)
        return self.run(perform(node.decided, node.ground, verb, arguments))

    def sample(self) -> None:
        """Let every node look at its queues."""
        for name in self.members:
            self.run(self.managed(name).context.rates.sample())
