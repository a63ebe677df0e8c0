"""Health checks of the management API on a node: what they say about the node and about the cluster."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import name_in
from tests.cluster.managed_cluster import ManagedCluster


@pytest.fixture
def cluster() -> Iterator[ManagedCluster]:
    made = ManagedCluster("a", "b")
    made.start_threads()
    yield made
    made.close()


def test_health_is_that_of_the_cluster(cluster: ManagedCluster) -> None:
    checks = ("alarms", "local-alarms", "virtual-hosts", "is-in-service", "node-is-quorum-critical")
    for check in checks:
        assert cluster.api("a").get(f"/health/checks/{check}")["status"] == "ok"
    assert cluster.api("a").get("/aliveness-test/%2F") == {"status": "ok"}
    cluster.members["b"].proxies.server.hub.alarm = "low on memory"
    assert cluster.api("a").call("GET", "/health/checks/local-alarms").status == 200
    assert [cluster.api("a").call("GET", f"/healthchecks/node/{each}").status for each in ("a", "b", "z")] == [
        200,
        503,
        404,
    ]
    told = cluster.api("a").call("GET", "/health/checks/alarms")
    assert (told.status, told.body["alarms"]) == (503, [{"node": "b", "resource": "memory"}])
    cluster.members["b"].proxies.server.hub.alarm = None


def test_quorum_queues_of_a_shard_without_an_owner_are_named(cluster: ManagedCluster) -> None:
    api, path = cluster.api("a"), "/health/checks/quorum-queues-without-elected-leaders"
    lost, served = name_in(3, "elected"), name_in(1, "elected")
    for name in (lost, served):
        api.put(f"/queues/%2F/{name}", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    assert api.get(f"{path}/all-vhosts") == {"status": "ok"}
    owner = cluster.owners.pop("3")
    row = {
        "name": lost,
        "readable_name": f"queue '{lost}' in vhost '/'",
        "virtual_host": "/",
        "type": "quorum",
    }
    failed = {"status": "failed", "reason": "Detected quorum queues without an elected leader", "queues": [row]}
    for scope in ("all-vhosts", "vhost/%2F", "vhost/%2F/pattern/%5Eelected"):
        assert api.call("GET", f"{path}/{scope}")[:2] == (503, failed)
    assert api.get(f"{path}/vhost/%2F/pattern/%5Eothers") == {"status": "ok"}
    cluster.owners["3"] = owner
    for name in (lost, served):
        api.delete(f"/queues/%2F/{name}")
