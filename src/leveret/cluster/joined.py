"""A node in its cluster: what is decided by etcd, kept in PostgreSQL, and served by every node, put together."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.coordination.coordinator import Coordinator
from leveret.cluster.coordination.etcd import Etcd
from leveret.cluster.coordination.keys import LINK, ClusterMembership, EtcdKeys, NodeMember
from leveret.cluster.coordination.placement import LOCAL, SHARDS
from leveret.cluster.forwarding.handler import MakeApis, no_apis
from leveret.cluster.node import Node
from leveret.cluster.shards.groups import ShardGroups, check_store
from leveret.cluster.shards.hosting import Hosting
from leveret.cluster.shards.moving import Moving
from leveret.embedded.broker import Broker, open_shard
from leveret.protocols.amqp.hub import Hub
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.net.addresses import with_port
from leveret.security.access import Access
from leveret.security.tls import ClientTls, MutualTls
from leveret.storage.journal.postgres.store import Takeover

DRAIN_S = 10.0  # for others to take the shards of a node that leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Which node of which cluster this is."""

    node: str
    cluster: str
    keys: tuple[bytes, ...]
    """By which nodes authenticate each other."""
    store: str
    etcd: tuple[str, ...]
    etcd_login: tuple[str, str] = ("", "")
    """User and password there."""
    etcd_tls: ClientTls | None = None
    host: str = "127.0.0.1"
    announce: str = "127.0.0.1"
    """The host that others call."""
    port: int = 0
    tls: MutualTls | None = None
    """What links to other nodes are encrypted with."""
    plain_remote: bool = False
    shards: int = SHARDS
    ttl_s: int = 4
    epoch_base: int = 0


def etcd_of(place: NodeSettings) -> Etcd:
    """The etcd of a cluster, which is not asked yet."""
    user, password = place.etcd_login
    tls = None if place.etcd_tls is None else place.etcd_tls.context
    return Etcd(place.etcd, user=user, password=password, tls=tls)


class JoinedNode:
    """A node that is about to join, has joined, or leaves."""

    def __init__(
        self,
        place: NodeSettings,
        catalog: ClusterCatalog,
        hub: Hub,
        access: Access,
        limits: AmqpLimits,
        moving: Moving,
        make_apis: MakeApis = no_apis,
    ) -> None:
        """`hub` is that of the proxies, over the copy that the catalog has; `moving` opens shards where they are."""
        self.place = place
        self.etcd = etcd_of(place)
        self._view = ClusterMembership(EtcdKeys(place.cluster), place.shards)
        self._hints: set[asyncio.Task[None]] = set()
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """What else has to end before this node leaves."""
        self.node = Node(place.node, place.cluster, place.keys, catalog, hub, self._view)
        peers = self.node.peers
        peers.tls, peers.plain_remote = place.tls, place.plain_remote
        self.node.announce = self._announce
        self.node.is_proven = self._is_proven
        self.moving = moving
        self.hosting = Hosting(self.node, access, limits, moving.open_at, self._fenced, make_apis)
        self.hosting.closed = moving.closed
        self.coordinator: Coordinator | None = None

    async def start(self, addresses: Mapping[str, str]) -> None:
        """Join; `addresses` are those that clients use, by protocol."""
        place = self.place
        port = await self.node.start(place.host, place.port)
        member = NodeMember(place.node, {**addresses, LINK: with_port(place.announce, port)})
        self.coordinator = Coordinator(
            self.etcd,
            place.cluster,
            member,
            self.hosting,
            shard_count=place.shards,
            view=self._view,
            epoch_base=place.epoch_base,
            ttl_s=place.ttl_s,
            on_catalog=self.node.catalog.hint,
        )
        self.moving.retake = self.coordinator.retake
        await asyncio.to_thread(check_store, place.store, place.cluster)
        await self.moving.learn()
        await self.coordinator.join()

    async def drain(self) -> None:
        """Give the shards to others; a node that is alone keeps them."""
        if self.coordinator is not None and len(self._view.nodes()) > 1:
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self.coordinator.drain()

    async def stop(self) -> None:
        for close in self.closing:
            await close()
        if self.coordinator is not None:
            await self.coordinator.leave()
        await self.node.stop()
        try:
            await self.hosting.stop()
        finally:
            await self.moving.close()
            await self.etcd.close()

    def _fenced(self, shard: int) -> None:
        if self.coordinator is not None:
            self.coordinator.fenced(shard)

    def _is_proven(self, shard_id: str) -> bool:
        """Whether no other node can own a shard of this node; its local one is its own."""
        return shard_id.startswith(LOCAL) or (self.coordinator is not None and self.coordinator.proven(int(shard_id)))

    def _announce(self, version: int) -> None:
        """Let those who are not linked to this node know of a new version of the catalog."""
        if self.coordinator is not None:
            task = asyncio.create_task(self.coordinator.hint(version))
            self._hints.add(task)
            task.add_done_callback(self._hints.discard)


def moving(place: NodeSettings, **options: Any) -> Moving:
    """How shards of a place are opened and moved: one journal in PostgreSQL each, which fails alone."""
    share = {"history_bytes": options["history_bytes"] // place.shards} if "history_bytes" in options else {}

    def open_in(url: str, shard: int, epoch: int) -> Broker:
        return open_shard(url, shard, Takeover(place.node, epoch), **{**options, **share, "on_failure": "raise"})

    return Moving(place.node, ShardGroups(place.store, place.cluster), open_in)
