"""Shards are opened and served, and what is in them is what the catalog has."""

import asyncio
from pathlib import Path

import pytest

import leveret
from leveret.amqp.limits import Limits
from leveret.amqp.server import AmqpServer
from leveret.clock import SystemClock
from leveret.cluster.catalog import Catalog
from leveret.cluster.catalog_log import Entry, MemoryLog
from leveret.core.errors import Unreachable
from leveret.embedded.guard import Guard
from leveret.net.admission import Admission
from leveret.node.hosting import Hosting
from leveret.node.node import Node
from leveret.security.access import Access


class Alone:
    """The only node that there is."""

    def owner_of(self, home: str) -> str | None:
        return "a"

    def address_of(self, node: str) -> tuple[str, int] | None:
        return None

    def nodes(self) -> list[str]:
        return ["a"]


class DeafLog(MemoryLog):
    """A log that does not answer."""

    async def read(self, version: int, limit: int) -> list[Entry]:
        raise Unreachable("the network is down")


async def take_over(log: MemoryLog, folder: Path) -> tuple[bool, list[str]]:
    """Serve what a folder has, on a node that has not looked at the log; gives the queues that are there then."""
    catalog = Catalog(log, "a", 1)
    guard = Guard(catalog.replica.broker, catalog.replica.lock, SystemClock())
    with guard as core:
        access = Access(core, None)
    fronts = AmqpServer(guard, access, Limits(), Admission(1, 1, 1))
    node = Node("a", "test", b"secret", catalog, fronts.hub, Alone())
    hosting = Hosting(node, access, Limits(), lambda shard, epoch: leveret.open(folder), lambda shard: None)
    try:
        taken = await hosting.take_over(0, 1)
        with node.shards["0"].hub.locked() as shard:
            return taken, list(shard.topology.vhost("/").queues)
    finally:
        await hosting.stop()
        await fronts.end()
        guard.close()


def folder_with_orders(folder: Path) -> Path:
    """A shard of another node, with a message in it."""
    with leveret.open(folder) as broker:
        with broker.guard as core:
            core.declare_queue("/", "orders")
        broker.queue("orders").send(b"kept")
    return folder


def test_a_node_that_takes_over_first_learns_what_the_last_owner_knew(tmp_path: Path) -> None:
    async def main() -> None:
        log = MemoryLog()
        other = Catalog(log, "b", 1)
        await other.change(lambda core: core.declare_queue("/", "orders").name)
        await other.change(lambda core: core.declare_queue("/", "new").name)
        assert await take_over(log, folder_with_orders(tmp_path)) == (True, ["orders", "new"])
        await other.close()

    asyncio.run(main())
    with leveret.open(tmp_path) as broker:
        assert [message.body for message in broker.queue("orders").receive(10)] == [b"kept"]


def test_a_node_that_cannot_learn_it_serves_nothing_and_deletes_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        asyncio.run(take_over(DeafLog(), folder_with_orders(tmp_path)))
    with leveret.open(tmp_path) as broker:
        assert [message.body for message in broker.queue("orders").receive(10)] == [b"kept"]
