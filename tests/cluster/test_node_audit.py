"""What is changed through a node is noted there, once, whoever does it."""

from collections.abc import Iterator

import pytest

from leveret.observability.audit import Audit
from tests.cluster.cluster import SHARDS, name_in
from tests.cluster.managed_cluster import ManagedCluster
from tests.cluster.sqs_world import NodeWorld
from tests.protocols.sqs.test_audit import check_changes

NAMES = [name_in(shard, "orders") for shard in range(SHARDS)]


@pytest.fixture
def cluster() -> Iterator[ManagedCluster]:
    made = ManagedCluster("a", "b")
    yield made
    made.close()


def acts(cluster: ManagedCluster, node: str) -> list[tuple[str, str]]:
    """What a node has noted, the first act first."""
    return [(row["by"], row["act"]) for row in reversed(cluster.managed(node).audit.recent(1_000))]


def test_an_act_is_noted_once_by_the_node_that_was_asked(cluster: ManagedCluster) -> None:
    api = cluster.api("b")
    expected: list[str] = []
    for name in NAMES:  # half of them are in shards of the other node
        api.put(f"/queues/%2F/{name}", {"durable": True})
        api.delete(f"/queues/%2F/{name}/contents")
        api.delete(f"/queues/%2F/{name}")
        expected += [f"PUT /api/queues/%2F/{name}", f"DELETE /api/queues/%2F/{name}/contents"]
        expected += [f"DELETE /api/queues/%2F/{name}"]
        cluster.ok("b", f"PUT /queues/{name}", {})
        cluster.ok("b", f"DELETE /queues/{name}")
        expected += ["PUT /queues/{queue}", "DELETE /queues/{queue}"]
        cluster.ok("b", f"PUT /streams/{name}", {})
        cluster.ok("b", "POST /operator/streams.delete", {"name": name})
        expected += ["PUT /streams/{stream}", "streams.delete"]
    api.put("/users/ada", {"password": "long enough", "tags": ""})
    api.post("/nodes/a/drain", {"stay": True})
    expected += ["PUT /api/users/ada", "POST /api/nodes/a/drain"]
    assert acts(cluster, "b") == [("guest", act) for act in expected]
    assert acts(cluster, "a") == []


def test_any_node_lists_the_rows_of_all(cluster: ManagedCluster) -> None:
    cluster.api("a").put("/vhosts/first")
    cluster.api("b").put("/vhosts/second")
    rows = cluster.ok("a", "POST /operator/audit.list", {"kind": "administration"})["result"]
    assert {(row["node"], row["act"]) for row in rows} == {
        ("a", "PUT /api/vhosts/first"),
        ("b", "PUT /api/vhosts/second"),
    }
    assert len(cluster.ok("b", "POST /operator/audit.list", {"limit": 1})["result"]) == 1


def test_a_change_by_amqp_is_noted_once_by_the_node_of_the_client(cluster: ManagedCluster) -> None:
    with cluster.connect("b") as connection:
        channel = connection.channel()
        expected: list[str] = []
        for name in NAMES:
            for _ in range(2):  # the second one changes nothing
                channel.exchange_declare("events", "topic")
                channel.queue_declare(name)
                channel.queue_bind(name, "events", "a.*")
            channel.confirm_delivery()
            channel.basic_publish("", name, b"x", mandatory=True)
            channel.queue_purge(name)
            channel.queue_unbind(name, "events", "a.*")
            channel.queue_delete(name)
            expected += ["queue.declare", "queue.bind", "queue.purge", "queue.unbind", "queue.delete"]
    assert acts(cluster, "b") == [("guest", act) for act in ["exchange.declare", *expected]]
    assert acts(cluster, "a") == []


def test_what_a_shard_does_to_many_messages_is_noted_with_its_count(cluster: ManagedCluster) -> None:
    first, second = NAMES[:2]
    for name in (first, second):
        cluster.ok("b", f"PUT /queues/{name}", {})
        cluster.ok("b", f"POST /queues/{name}/messages", {"payload": "x"})
    cluster.ok("b", f"POST /queues/{first}/redrive", {"to": second, "dry_run": True})
    told = cluster.managed("b").audit.recent(1)[0]
    assert {"to": second, "dry_run": True, "matched": 1, "moved": 0}.items() <= told.items()
    for name in (first, second):
        cluster.api("b").delete(f"/queues/%2F/{name}/contents")
        assert cluster.managed("b").audit.recent(1)[0]["purged"] == 1


def test_a_change_by_sqs_is_noted_once_by_the_node_of_the_client() -> None:
    world = NodeWorld(guards=False)
    try:
        world.service.audit = Audit(world.clock)
        check_changes(world)
    finally:
        world.end()


def test_a_node_tells_the_heads_of_its_own_logs(cluster: ManagedCluster) -> None:
    cluster.api("b").put("/vhosts/first")
    heads = cluster.ok("b", "POST /operator/audit.heads", {})["result"]
    assert heads.keys() == {"administration", "clients", "refusals"}
    assert cluster.ok("a", "POST /operator/audit.heads", {})["result"]["administration"]["seq"] == 0
