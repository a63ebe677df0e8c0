"""Nodes in one event loop on a real etcd: joining, leaving, dying, and what happens without etcd."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.coordination.coordinator import Coordinator
from leveret.cluster.coordination.etcd import Etcd
from leveret.cluster.coordination.keys import NodeMember
from leveret.cluster.coordination.placement import assignment
from leveret.core.errors import AccessRefused, JournalFailed, ResourceLocked
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.coordination.memory_log import MemoryLog
from tests.waiting import PATIENCE_S

SHARDS = 6
TTL_S = 1


class Journals:
    """The epochs of all shards, as PostgreSQL would have them."""

    def __init__(self) -> None:
        self.epochs = dict.fromkeys(range(SHARDS), 0)
        self.history: list[tuple[int, str, int]] = []


class Served:
    """The shards of one node: what its journal would accept."""

    def __init__(self, node: str, journals: Journals) -> None:
        self.node = node
        self.journals = journals
        self.epochs: dict[int, int] = {}
        self.broken = False

    async def take_over(self, shard: int, epoch: int) -> bool:
        if self.broken:
            raise JournalFailed("the database is away")
        if self.journals.epochs[shard] >= epoch:
            return False
        self.journals.epochs[shard] = self.epochs[shard] = epoch
        self.journals.history.append((shard, self.node, epoch))
        return True

    async def check(self, shard: int, epoch: int) -> bool:
        return self.journals.epochs[shard] == epoch

    async def drain(self, shard: int) -> None:
        del self.epochs[shard]

    drop = drain


class Cluster:
    """Nodes by name."""

    def __init__(self, process: EtcdProcess, name: str) -> None:
        self.process = process
        self.name = name
        self.journals = Journals()
        self.nodes: dict[str, Coordinator] = {}
        self.served: dict[str, Served] = {}
        self.clients: list[Etcd] = []

    def node(self, name: str, on_catalog: Callable[[int], None] = lambda version: None) -> Coordinator:
        self.clients.append(Etcd([self.process.url], timeout_s=PATIENCE_S))
        self.served[name] = Served(name, self.journals)
        member = NodeMember(name, {"amqp": "127.0.0.1:5672"})
        self.nodes[name] = Coordinator(
            self.clients[-1], self.name, member, self.served[name], shard_count=SHARDS, epoch_base=1, ttl_s=TTL_S,
            on_catalog=on_catalog,
        )  # fmt: skip
        return self.nodes[name]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.02)

    def serving(self, *nodes: str) -> bool:
        """Whether these nodes have all shards, each one of them, and everybody knows it."""
        owners = [shard for node in nodes for shard in self.nodes[node].ownership.serving()]
        known = [
            self.nodes[node].view.owners[shard].epoch == self.journals.epochs[shard] > 0
            for node in nodes
            for shard in range(SHARDS)
            if shard in self.nodes[node].view.owners
        ]
        return sorted(owners) == list(range(SHARDS)) and len(known) == SHARDS * len(nodes) and all(known)

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.leave()
        for client in self.clients:
            await client.close()


def run(process: EtcdProcess, prefix: str, play: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        cluster = Cluster(process, prefix.strip("/").replace("/", "-"))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await play(cluster)
        finally:
            await cluster.close()

    asyncio.run(main())


def test_shards_follow_the_nodes_that_come_and_go(etcd: EtcdProcess, prefix: str) -> None:
    async def play(cluster: Cluster) -> None:
        await cluster.node("a").join()
        await cluster.until(lambda: cluster.serving("a"))
        await cluster.node("b").join()
        await cluster.until(lambda: len(cluster.nodes["a"].view.members) == 2)
        cluster.nodes["a"].rebalance()
        fair = assignment(SHARDS, ["a", "b"])
        await cluster.until(
            lambda: (
                cluster.serving("a", "b")
                and all(cluster.nodes["a"].view.owners[shard].node == node for shard, node in fair.items())
            )
        )
        assert cluster.nodes["b"].view.members["a"].addresses == {"amqp": "127.0.0.1:5672"}
        await cluster.nodes.pop("a").drain()
        await cluster.until(lambda: cluster.serving("b"))

    run(etcd, prefix, play)


def test_a_drained_node_has_left_nothing_and_epochs_only_rise(etcd: EtcdProcess, prefix: str) -> None:
    async def play(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.node(name).join()
        await cluster.until(lambda: cluster.serving("a", "b"))
        await cluster.nodes["a"].drain()
        assert cluster.served["a"].epochs == {}
        assert cluster.nodes["a"].ownership.empty
        await cluster.nodes["a"].leave()
        await cluster.until(lambda: list(cluster.nodes["b"].view.members) == ["b"])
        await cluster.until(lambda: cluster.serving("b"))
        for shard in range(SHARDS):
            epochs = [epoch for each, _, epoch in cluster.journals.history if each == shard]
            assert epochs == sorted(set(epochs))

    run(etcd, prefix, play)


def test_a_dead_node_is_followed_when_its_lease_has_ended(etcd: EtcdProcess, prefix: str) -> None:
    async def play(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.node(name).join()
        await cluster.until(lambda: cluster.serving("a", "b"))
        dead = cluster.nodes.pop("a")
        for task in dead._tasks:
            task.cancel()
        await cluster.until(lambda: cluster.serving("b"))

    run(etcd, prefix, play)


def test_a_new_version_of_the_catalog_is_heard_by_all(etcd: EtcdProcess, prefix: str) -> None:
    async def play(cluster: Cluster) -> None:
        log, heard = MemoryLog(), asyncio.Event()
        first, second = ClusterCatalog(log, "a"), ClusterCatalog(log, "b")
        await cluster.node("a").join()
        await cluster.node("b", second.hint).join()
        second.listeners.append(lambda changes: heard.set())
        following = asyncio.create_task(second.follow())
        await first.change(lambda broker: broker.declare_queue("/", "orders").name)
        await cluster.nodes["a"].hint(first.version)
        await heard.wait()
        assert "orders" in second.replica.broker.topology.vhost("/").queues
        following.cancel()

    run(etcd, prefix, play)


def test_a_name_is_for_one_process(etcd: EtcdProcess, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.cluster.coordination.coordinator.JOIN_ATTEMPTS", 1)

    async def play(cluster: Cluster) -> None:
        await cluster.node("a").join()
        first = cluster.nodes["a"]
        with pytest.raises(ResourceLocked, match="node 'a'"):
            await cluster.node("a").join()
        cluster.nodes["a"] = first

    run(etcd, prefix, play)


def test_a_node_that_cannot_reach_its_journals_lets_others_try(etcd: EtcdProcess, prefix: str) -> None:
    async def play(cluster: Cluster) -> None:
        broken, sound = cluster.node("a"), cluster.node("b")
        cluster.served["a"].broken = True
        await broken.join()
        await sound.join()
        await cluster.until(lambda: sorted(sound.ownership.serving()) == list(range(SHARDS)))

    run(etcd, prefix, play)


def test_owners_go_on_without_etcd(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        nodes = [cluster.node(name) for name in ("a", "b")]
        for node in nodes:
            await node.join()
        await cluster.until(lambda: cluster.serving("a", "b"))
        before = list(cluster.journals.history)
        process.signal(signal.SIGSTOP)
        silent_ms = nodes[0].now_ms()
        await cluster.until(lambda: nodes[0].now_ms() > silent_ms + 2 * TTL_S * 1000)
        await cluster.until(
            lambda: all(
                node.ownership.proven(shard, node.now_ms()) for node in nodes for shard in node.ownership.serving()
            )
        )
        assert cluster.serving("a", "b")
        process.kill()
        process.start()
        await cluster.until(lambda: all(node.ownership._has_lease(node.now_ms()) for node in nodes))
        assert cluster.serving("a", "b")
        assert cluster.journals.history == before

    with EtcdProcess(tmp_path) as process:
        run(process, "outage", play)


def test_an_owner_that_lost_its_lease_is_an_owner_still_or_is_followed(etcd: EtcdProcess, prefix: str) -> None:
    async def play(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.node(name).join()
        await cluster.until(lambda: cluster.serving("a", "b"))
        lease = cluster.nodes["a"].ownership.lease
        await cluster.clients[0].revoke(lease)
        await cluster.until(lambda: cluster.nodes["a"].ownership.lease not in (0, lease))
        await cluster.until(
            lambda: (
                cluster.serving("a", "b")
                and cluster.served["a"].epochs.keys() == set(cluster.nodes["a"].ownership.serving())
            )
        )

    run(etcd, prefix, play)


def test_a_node_that_etcd_refuses_for_a_while_goes_on_afterwards(
    etcd: EtcdProcess, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: set[str] = set()

    def refuse(path: str, *request: Any, **options: Any) -> Any:
        refused.add(path)
        raise AccessRefused("etcd refuses: who are you")

    async def play(cluster: Cluster) -> None:
        node = cluster.node("a")
        await node.join()
        await cluster.until(lambda: cluster.serving("a"))
        monkeypatch.setattr(cluster.clients[0]._gateway, "ask", refuse)
        await cluster.until(lambda: {"/v3/lease/keepalive", "/v3/kv/range"} <= refused and node.trouble is not None)
        monkeypatch.undo()
        await cluster.node("b").join()
        await cluster.until(lambda: node.trouble is None and cluster.serving("a", "b"))

    monkeypatch.setattr("leveret.cluster.coordination.etcd.IDLE_S", 0.1)  # a watch is begun anew soon
    run(etcd, prefix, play)


def test_a_takeover_that_breaks_is_made_again(etcd: EtcdProcess, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[int] = []

    async def play(cluster: Cluster) -> None:
        node = cluster.node("a")
        take_over = cluster.served["a"].take_over

        async def breaks(shard: int, epoch: int) -> bool:
            if shard not in broken:
                broken.append(shard)
                raise ValueError("nobody thought of that")
            return await take_over(shard, epoch)

        monkeypatch.setattr(cluster.served["a"], "take_over", breaks)
        await node.join()
        await cluster.until(lambda: cluster.serving("a"))
        assert len(broken) == SHARDS

    run(etcd, prefix, play)


def test_a_node_that_cannot_close_a_shard_leaves_nevertheless(
    etcd: EtcdProcess, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(cluster: Cluster) -> None:
        node, client = cluster.node("a"), cluster.clients[0]
        await node.join()
        await cluster.until(lambda: cluster.serving("a"))
        drop = cluster.served["a"].drop

        async def fails(shard: int) -> None:
            await drop(shard)
            raise JournalFailed("the database is away")

        monkeypatch.setattr(cluster.served["a"], "drop", fails)
        await cluster.nodes.pop("a").leave()
        assert cluster.served["a"].epochs == {}
        assert await client.get(node.keys.node("a")) is None

    run(etcd, prefix, play)
