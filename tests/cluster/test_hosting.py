"""Shards are opened and served, and what is in them is what the catalog has."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import leveret
from leveret.clock import SystemClock
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.catalog.log import LogEntry
from leveret.cluster.node import Node
from leveret.cluster.shards.hosting import Hosting
from leveret.core.broker import Broker
from leveret.core.errors import Fenced, Unreachable
from leveret.core.properties import Properties, content
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.server import AmqpServer
from leveret.protocols.net.admission import ConnectionBudget
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access
from leveret.storage.journal.files.store import FileStore
from tests.cluster.coordination.memory_log import MemoryLog
from tests.cluster.peer import KEYS
from tests.waiting import PATIENCE_S


class Alone:
    """The only node that there is."""

    def owner_of(self, shard_id: str) -> str | None:
        return "a"

    def address_of(self, node: str) -> tuple[str, int] | None:
        return None

    def nodes(self) -> list[str]:
        return ["a"]


class DeafLog(MemoryLog):
    """A log that does not answer."""

    async def read(self, version: int, limit: int) -> list[LogEntry]:
        raise Unreachable("the network is down")


@asynccontextmanager
async def hosted(log: MemoryLog, folder: Path) -> AsyncIterator[tuple[Node, Hosting]]:
    """A node that has not looked at the log; its only shard is what a folder has."""
    catalog = ClusterCatalog(log, "a", 1)
    runtime = Runtime(catalog.replica.broker, catalog.replica.lock, SystemClock())
    with runtime as core:
        access = Access(core, None)
    proxies = AmqpServer(runtime, access, AmqpLimits(), ConnectionBudget(1, 1, 1))
    node = Node("a", "test", KEYS, catalog, proxies.hub, Alone())
    hosting = Hosting(node, access, AmqpLimits(), lambda shard, epoch: leveret.open(folder), lambda shard: None)
    try:
        yield node, hosting
    finally:
        await hosting.stop()
        await node.stop()
        await proxies.end()
        runtime.close()


def declare(name: str) -> Callable[[Broker], str]:
    """Declares a queue."""
    return lambda core: core.declare_queue("/", name).name


def folder_with_orders(folder: Path) -> Path:
    """A shard of another node, with a message in it."""
    with leveret.open(folder) as broker:
        with broker.runtime as core:
            core.declare_queue("/", "orders")
        broker.queue("orders").send(b"kept")
    return folder


def test_a_node_that_takes_over_first_learns_what_the_last_owner_knew(tmp_path: Path) -> None:
    async def main() -> None:
        log = MemoryLog()
        other = ClusterCatalog(log, "b", 1)
        await other.change(declare("orders"))
        await other.change(declare("new"))
        async with hosted(log, folder_with_orders(tmp_path)) as (node, hosting):
            assert await hosting.take_over(0, 1)
            with node.shards["0"].hub.locked() as shard:
                assert list(shard.topology.vhost("/").queues) == ["orders", "new"]

    asyncio.run(main())
    with leveret.open(tmp_path) as broker:
        assert [message.body for message in broker.queue("orders").receive(10)] == [b"kept"]


@pytest.mark.parametrize(("planned", "left"), [(True, 2), (False, 1)])
def test_what_is_not_persistent_stays_in_a_shard_that_is_given_away(tmp_path: Path, planned: bool, left: int) -> None:
    async def main() -> None:
        log = MemoryLog()
        await ClusterCatalog(log, "b", 1).change(declare("orders"))
        async with hosted(log, folder_with_orders(tmp_path)) as (node, hosting):
            assert await hosting.take_over(0, 1)
            with node.shards["0"].hub.locked() as shard:
                orders = shard.topology.vhost("/").queues["orders"]
                shard.publish([orders], orders.route, *content(Properties(), b"fleeting"), persistent=False)
            await (hosting.drain(0) if planned else hosting.drop(0))
            assert await hosting.take_over(0, 2)
            with node.shards["0"].hub.locked() as shard:
                assert shard.topology.vhost("/").queues["orders"].depth == left

    asyncio.run(main())


def test_a_node_that_cannot_learn_it_serves_nothing_and_deletes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosted(DeafLog(), folder_with_orders(tmp_path)) as (node, hosting):
            with pytest.raises(Unreachable):
                await hosting.take_over(0, 1)
            assert "0" not in node.shards

    asyncio.run(main())
    with leveret.open(tmp_path) as broker:
        assert [message.body for message in broker.queue("orders").receive(10)] == [b"kept"]


@pytest.mark.parametrize("step", ["leveret.cluster.shards.hosting.unpack", "leveret.cluster.node.Node.look"])
def test_a_takeover_that_breaks_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def broken(_: object) -> None:
        raise ValueError("nobody thought of that")

    async def main() -> None:
        async with hosted(MemoryLog(), tmp_path) as (node, hosting):
            monkeypatch.setattr(step, broken)
            with pytest.raises(ValueError, match="nobody thought"):
                await hosting.take_over(0, 1)
            assert (list(node.shards), list(node.outboxes)) == (["@a"], ["@a"])
            monkeypatch.undo()
            assert await hosting.take_over(0, 2)

    asyncio.run(main())


class Opening:
    """Opens a shard, but not before it may go on."""

    def __init__(self, folder: Path) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._folder = folder

    def __call__(self, shard: int, epoch: int) -> leveret.Broker:
        self.begun.set()
        self.go_on.wait()
        return leveret.open(self._folder)


def test_a_shard_that_a_node_opens_while_it_leaves_is_closed(tmp_path: Path) -> None:
    opening = Opening(tmp_path)

    async def main() -> None:
        async with hosted(MemoryLog(), tmp_path) as (node, hosting):
            hosting._open_at = opening
            taking = asyncio.create_task(hosting.take_over(0, 1))
            await asyncio.to_thread(opening.begun.wait)
            taking.cancel()
            await asyncio.sleep(0)
            opening.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await taking
            assert list(node.shards) == ["@a"]
            with leveret.open(tmp_path):  # nobody has it
                pass

    asyncio.run(main())


def test_a_takeover_that_waits_for_its_database_holds_up_nothing_else(tmp_path: Path) -> None:
    opening = Opening(tmp_path)

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with hosted(MemoryLog(), tmp_path) as (_, hosting):
            hosting._open_at = opening
            taking = asyncio.create_task(hosting.take_over(0, 1))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await asyncio.to_thread(opening.begun.wait)
            finally:
                for each in (opening.begun, opening.go_on):
                    each.set()
            assert await taking

    asyncio.run(main())


def test_what_a_shard_deletes_leaves_the_catalog_when_that_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with hosted(MemoryLog(), tmp_path) as (node, hosting), asyncio.timeout(PATIENCE_S):
            await node.decide(declare("brief"))
            await hosting.take_over(0, 1)
            hub, shard_ids = node.shards["0"].hub, node.catalog.replica.shard_ids
            assert isinstance(hub.runtime, Runtime)
            assert isinstance(hub.runtime.store, FileStore)
            hub.runtime.flush()
            writer, works = hub.runtime.store._writer, threading.Event()
            commit = writer.commit
            monkeypatch.setattr(writer, "commit", lambda frame: works.wait() and commit(frame))
            try:
                with hub.locked() as core:
                    core.delete_queue(core.topology.vhost("/").queue("brief"))
                for _ in range(3):
                    await node.decide(lambda core: None)
                assert ("/", "brief") in shard_ids
            finally:
                works.set()
            hub.runtime.flush()
            while shard_ids:
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_time_passes_in_a_shard_that_is_lost_and_not_given_up_yet(tmp_path: Path) -> None:
    async def main() -> None:
        async with hosted(MemoryLog(), tmp_path) as (_, hosting):
            await hosting.take_over(0, 1)
            broker, server, _ = hosting._served[0]
            assert broker.runtime.store is not None
            broker.runtime.store.commit.fail(Fenced("b has taken over"))
            server._tick()
            server.hub.durable(1)

    asyncio.run(main())
