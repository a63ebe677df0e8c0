"""Queues that have just gone by themselves, of which only their shard knows: every edge answers as a single server."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from leveret.cluster.catalog.auto_deletion import AutoDeletion
from leveret.cluster.catalog.catalog import Verb
from leveret.cluster.forwarding import dispatcher
from leveret.cluster.forwarding.dispatcher import AutoDeleted
from tests.cluster.cluster import name_in
from tests.cluster.managed_cluster import ManagedCluster

ASKED, OWNER, SHARD = "a", "b", 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[ManagedCluster]:
    made = ManagedCluster(ASKED, OWNER)
    made.start_threads()
    yield made
    made.close()


class Held:
    """What the owner of a shard would tell others, and is kept from."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._told: list[Callable[[], None]] = []
        self._insist = AutoDeletion.insist
        patch.setattr(AutoDeletion, "insist", lambda auto_deletion, verb: self._hold(auto_deletion, verb))

    def _hold(self, auto_deletion: AutoDeletion, verb: Verb) -> None:
        self._told.append(partial(self._insist, auto_deletion, verb))

    def let_go(self) -> None:
        """Tell them; in the loop."""
        told, self._told = self._told, []
        for tell in told:
            tell()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


@pytest.fixture
def heard(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner tells the others as soon as one of them has noticed."""
    look = AutoDeleted._has_gone

    async def looked(self: AutoDeleted, vhost: str, name: str) -> bool:
        found = await look(self, vhost, name)
        if found:
            held.let_go()
        return found

    monkeypatch.setattr(AutoDeleted, "_has_gone", looked)


def vanished(cluster: ManagedCluster, prefix: str) -> str:
    """The name of a queue that its shard has deleted by itself."""
    name = name_in(SHARD, prefix)
    cluster.api(ASKED).put(f"/queues/%2F/{name}", {"durable": True, "auto_delete": True})
    hub = cluster.members[OWNER].shards[str(SHARD)].server.hub

    def delete() -> None:
        with hub.locked() as core:
            core.delete_queue(core.topology.vhost("/").queue(name))

    cluster.call(delete)
    return name


def is_there(cluster: ManagedCluster, name: str) -> bool:
    """Whether it is, when everything is decided."""
    cluster.run(cluster.settled())
    return cluster.ask(OWNER, f"GET /queues/{name}").status == 200


@pytest.mark.parametrize(
    ("line", "body", "status"),
    [
        ("PUT /queues/{}", {}, 201),
        ("PATCH /queues/{}", {"visibility_timeout": 7}, 404),
        ("POST /queues/{}/pause", {}, 404),
        ("POST /exchanges/amq.fanout/bindings", {"destination": ""}, 404),
    ],
)
@pytest.mark.usefixtures("heard")
def test_rest(cluster: ManagedCluster, line: str, body: dict[str, Any], status: int) -> None:
    name = vanished(cluster, "rest")
    given = {**body, "destination": name} if "destination" in body else body
    assert cluster.ask(ASKED, line.format(name), given).status == status
    assert is_there(cluster, name) is (status == 201)
    cluster.ask(ASKED, f"DELETE /queues/{name}")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/queues/%2F/{}", {"durable": True}, 201),
        ("POST", "/bindings/%2F/e/amq.fanout/q/{}", {"routing_key": ""}, 404),
        ("GET", "/queues/%2F/{}/bindings", None, 404),
    ],
)
@pytest.mark.usefixtures("heard")
def test_management(cluster: ManagedCluster, method: str, path: str, body: Any, status: int) -> None:
    name = vanished(cluster, "managed")
    assert cluster.api(ASKED).call(method, path.format(name), body).status == status
    assert is_there(cluster, name) is (status == 201)
    cluster.ask(ASKED, f"DELETE /queues/{name}")


@pytest.mark.usefixtures("heard")
def test_sqs(cluster: ManagedCluster) -> None:
    client = cluster.sqs(ASKED)
    try:
        changed, made = vanished(cluster, "changed"), vanished(cluster, "made")
        with pytest.raises(ClientError, match="NonExistentQueue"):
            client.set_queue_attributes(QueueUrl=f"http://sqs/0/{changed}", Attributes={"VisibilityTimeout": "7"})
        client.create_queue(QueueName=made)
        assert [is_there(cluster, name) for name in (changed, made)] == [False, True]
    finally:
        client.close()


def test_lists(cluster: ManagedCluster, held: Held) -> None:
    name, other = vanished(cluster, "listed"), name_in(SHARD, "other")
    cluster.ok(ASKED, f"PUT /queues/{other}", {})
    for rows in (cluster.ok(ASKED, "GET /queues")["queues"], cluster.api(ASKED).get("/queues")):
        assert [row["name"] for row in rows if row["name"] in (name, other)] == [other]
    cluster.call(held.let_go)


def test_who_has_waited_long_is_told_to_try_again(
    cluster: ManagedCluster, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "PATIENCE_S", -1.0)
    name = vanished(cluster, "late")
    refused = cluster.ask(ASKED, f"PUT /queues/{name}", {})
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert cluster.api(ASKED).call("PUT", f"/queues/%2F/{name}", {}).status == 503
    cluster.call(held.let_go)
