"""Definitions that come back older, as after the restore of a database: no shard removes anything by them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from leveret.cluster.catalog.replica import VERSIONS_MAX, Mark, VersionHistory
from leveret.cluster.operations import ConflictResolution
from leveret.core.changes import DeclareQueue
from leveret.core.policy import Policy
from tests.cluster.cluster import Cluster, name_in

PRECIOUS = b"precious"
KEPT, LOST = name_in(0, "kept"), name_in(0, "lost")


def forget(cluster: Cluster, since: int) -> None:
    """Let the log be what it was at a version, and every node know it."""

    async def look() -> None:
        cluster.log._entries = [each for each in cluster.log._entries if each.version <= since]
        cluster.log._version = since
        for member in cluster.members.values():
            await member.catalog.renew_lease()

    cluster.run(look())


def version(cluster: Cluster) -> int:
    return cluster.members["a"].catalog.version


def depths(cluster: Cluster, shard_id: str = "0") -> dict[str, int]:
    """What a shard has."""
    core = cluster.members[cluster.owners[shard_id]].shards[shard_id].server.hub.core
    return {name: queue.depth for name, queue in core.topology.vhost("/").queues.items()}


def conflicts(cluster: Cluster) -> list[dict[str, Any]]:
    return [row for member in cluster.members.values() for row in ConflictResolution(member.node).conflicts()]


def settle(cluster: Cluster, discard: bool) -> list[dict[str, Any]]:
    """Do what an operator of node b wants."""
    offices = {name: ConflictResolution(member.node) for name, member in cluster.members.items()}
    return cluster.run(offices["b"].settle(discard))


def take_over(cluster: Cluster) -> None:
    """Let shard 0 have another owner, who knows of it what its journal says."""
    cluster.members[cluster.owners["0"]].shards["0"].shard = None
    cluster.move("0", "b" if cluster.owners["0"] == "a" else "a")


@contextmanager
def publisher(cluster: Cluster) -> Iterator[Any]:
    with cluster.connect("a") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


@pytest.fixture
def restored(cluster: Cluster) -> Cluster:
    """A cluster whose definitions do not know a queue with two messages, what leads there, and its policy."""
    with publisher(cluster) as channel:
        channel.queue_declare(KEPT, durable=True)
        channel.basic_publish("", KEPT, PRECIOUS)
        before = version(cluster)
        channel.queue_declare(LOST, durable=True, arguments={"x-max-priority": 3})
        channel.exchange_declare("orders", "topic", durable=True)
        channel.queue_bind(LOST, "orders", "#")
        limit = Policy("limit", LOST, definition={"max-length": 9})
        cluster.run(cluster.members["a"].node.decide(lambda core: core.set_policy("/", limit)))
        for exchange in ("", "orders"):
            channel.basic_publish(exchange, LOST, PRECIOUS, mandatory=True)
    forget(cluster, before)
    return cluster


def test_what_definitions_forget_stays_in_its_shard(restored: Cluster) -> None:
    assert depths(restored) == {KEPT: 1, LOST: 2}
    assert ("/", LOST) not in restored.members["b"].catalog.replica.shard_ids
    (row,) = (row for row in conflicts(restored) if row["shard"] == "0")
    assert (row["queues"], row["names"], row["messages"]) == (1, [LOST], 2)
    with publisher(restored) as channel:
        channel.queue_declare(name_in(0, "new"), durable=True)
        channel.basic_publish("", KEPT, PRECIOUS, mandatory=True)
        channel.queue_delete(KEPT)
    assert depths(restored) == {LOST: 2, name_in(0, "new"): 0}


def test_a_doubt_does_not_end_when_versions_are_higher_again(restored: Cluster) -> None:
    node = restored.members["a"].node
    while version(restored) < 20:
        restored.run(node.decide(lambda core: core.declare_queue("/", f"q{version(restored)}").name))
    take_over(restored)
    assert depths(restored)[LOST] == 2
    assert [row["names"] for row in conflicts(restored) if row["shard"] == "0"] == [[LOST]]


def test_a_shard_that_was_not_there_then_is_in_doubt_by_who_wrote_its_version(cluster: Cluster) -> None:
    with publisher(cluster) as channel:
        before = version(cluster)
        channel.queue_declare(LOST, durable=True)
        channel.basic_publish("", LOST, PRECIOUS)
    away = cluster.call(lambda: cluster.members["a"].hand_over("0"))
    away.shard = None
    forget(cluster, before)
    for name in ("other", "another"):
        cluster.run(cluster.members["a"].node.decide(DeclareQueue("/", name).apply))
    cluster.call(lambda: cluster.members["a"].serve("0", away))
    assert depths(cluster)[LOST] == 1
    assert [row["names"] for row in conflicts(cluster)] == [[LOST]]


def test_the_definitions_get_back_what_shards_have(restored: Cluster) -> None:
    rows = settle(restored, discard=False)
    assert {row["left"] for row in rows} == {None}
    assert conflicts(restored) == []
    with publisher(restored) as channel:
        channel.queue_declare(LOST, durable=True, arguments={"x-max-priority": 3})
        channel.basic_publish("orders", "any", PRECIOUS, mandatory=True)
    replica = restored.members["b"].catalog.replica
    assert replica.shard_ids["/", LOST] == "0"
    assert replica.broker.topology.vhost("/").policies["limit"].definition == {"max-length": 9}
    take_over(restored)
    assert depths(restored) == {KEPT: 1, LOST: 3}
    assert conflicts(restored) == []


def test_a_queue_comes_back_where_its_messages_are(cluster: Cluster) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    work = name_in(2, "work")
    assert cluster.members["a"].catalog.replica.placements.choose("/", "grave", None) != 2
    with publisher(cluster) as channel:
        channel.queue_declare(work, durable=True, arguments=dead)
        channel.queue_declare("grave", durable=True)
        channel.basic_publish("", "grave", PRECIOUS)
        channel.queue_delete(work)
    forget(cluster, 0)
    settle(cluster, discard=False)
    assert cluster.members["b"].catalog.replica.shard_ids["/", "grave"] == "2"
    assert depths(cluster, "2") == {"grave": 1}


def test_an_operator_may_discard_it(restored: Cluster) -> None:
    assert [row["messages"] for row in settle(restored, discard=True) if row["shard"] == "0"] == [2]
    assert (depths(restored), conflicts(restored)) == ({KEPT: 1}, [])
    take_over(restored)
    assert depths(restored) == {KEPT: 1}


def test_another_queue_of_that_name_does_not_take_its_place(restored: Cluster) -> None:
    with publisher(restored) as channel:
        channel.queue_declare(LOST, durable=True, arguments={"x-max-priority": 5, "x-max-length": 1})
    take_over(restored)
    assert depths(restored)[LOST] == 2
    (left,) = (row["left"] for row in settle(restored, discard=False) if row["left"] is not None)
    assert (left["names"], depths(restored)[LOST]) == ([LOST], 2)
    settle(restored, discard=True)
    assert depths(restored)[LOST] == 0


def test_old_policies_drop_no_messages(cluster: Cluster) -> None:
    node = cluster.members["a"].node
    limit = Policy("limit", ".*", definition={"max-length": 1})
    cluster.run(node.decide(lambda core: core.set_policy("/", limit)))
    with publisher(cluster) as channel:
        channel.queue_declare(KEPT, durable=True)
        before = version(cluster)
        cluster.run(node.decide(lambda core: core.delete_policy("/", "limit", False)))
        for _ in range(3):
            channel.basic_publish("", KEPT, PRECIOUS)
    forget(cluster, before)
    assert depths(cluster) == {KEPT: 3}
    settle(cluster, discard=False)
    assert (depths(cluster), conflicts(cluster)) == ({KEPT: 3}, [])
    assert not cluster.members["b"].catalog.replica.broker.topology.vhost("/").policies


def test_definitions_that_know_all_that_a_shard_has_are_not_doubted(cluster: Cluster) -> None:
    with publisher(cluster) as channel:
        channel.queue_declare(KEPT, durable=True)
        before = version(cluster)
        channel.queue_declare(LOST, durable=True)
        channel.queue_delete(LOST)
        channel.basic_publish("", KEPT, PRECIOUS)
    forget(cluster, before)
    assert (depths(cluster), conflicts(cluster)) == ({KEPT: 1}, [])


def test_a_version_is_known_by_its_writer_for_as_long_as_he_is_remembered() -> None:
    history = VersionHistory(Mark(5, "e"))
    history.reach(Mark(6, "f"))
    assert history.has(Mark(6, "f"))
    assert not history.has(Mark(6, "g"))
    assert not history.has(Mark(7, "g"))
    assert history.has(Mark(2, "who knows"))
    for number in range(7, VERSIONS_MAX + 7):
        history.reach(Mark(number, "h"))
    assert history.has(Mark(6, "g"))
