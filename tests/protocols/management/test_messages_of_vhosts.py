"""Dead letters and scheduled messages of a whole virtual host: grouped, bounded, and only those that one may read."""

from collections.abc import Iterator

import pytest

from leveret.protocols.management.messages import TOLD_MAX
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess

HOME = "graves"


@pytest.fixture(scope="module")
def virtual_host(server: ServerProcess) -> Iterator[Api]:
    """A virtual host in which messages died in two ways, and others are not due yet."""
    api = Api(server.ports["http"])
    api.put(f"/vhosts/{HOME}")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    api.put(f"/queues/{HOME}/dead", {"durable": True})
    api.put(f"/queues/{HOME}/orders", {"durable": True, "arguments": dead})
    api.put(f"/queues/{HOME}/mail", {"durable": True, "arguments": {**dead, "x-max-length": 0}})
    publish(api, "dead", "never died")
    for number in range(3):
        publish(api, "orders", f"order {number}")
    api.post(f"/queues/{HOME}/orders/get", {"count": 3, "ackmode": "reject_requeue_false", "encoding": "auto"})
    publish(api, "mail", "too long")
    delayed = {"type": "x-delayed-message", "durable": True, "arguments": {"x-delayed-type": "direct"}}
    api.put(f"/exchanges/{HOME}/later", delayed)
    api.post(f"/bindings/{HOME}/e/later/q/orders", {"routing_key": "orders"})
    for seconds in (7_200, 3_600):
        publish(api, "orders", "later", {"headers": {"x-delay": seconds * 1000}}, "later")
    yield api
    api.delete(f"/vhosts/{HOME}")


def publish(api: Api, queue: str, text: str, properties: object = None, exchange: str = "amq.default") -> None:
    message = {"routing_key": queue, "payload": text, "payload_encoding": "string", "properties": properties or {}}
    assert api.post(f"/exchanges/{HOME}/{exchange}/publish", message)["routed"] in (True, False)


@pytest.fixture
def stranger(virtual_host: Api, server: ServerProcess) -> Api:
    """Somebody who may enter, and read nothing."""
    virtual_host.put("/users/stranger", {"password": "strangers", "tags": "management"})
    virtual_host.put(f"/permissions/{HOME}/stranger", {"configure": "", "write": "", "read": "^mail$"})
    return Api(server.ports["http"], "stranger", "strangers")


def test_dead_letters_are_counted_by_queue_reason_and_origin(virtual_host: Api) -> None:
    told = virtual_host.get(f"/dead-letters/{HOME}")
    groups = [(row["queue"], row["reason"], row["origin"], row["messages"]) for row in told["groups"]]
    assert groups == [("dead", "rejected", "orders", 3), ("dead", "maxlen", "mail", 1)]
    assert told["queues"] == [{"name": "dead", "messages": 5, "examined": 5}]
    assert told["complete"]
    rejected = told["groups"][0]
    assert rejected["bytes"] == 3 * len("order 0")
    assert 0 < rejected["first_died_at"] <= rejected["last_died_at"]


def test_scheduled_messages_come_by_their_time(virtual_host: Api) -> None:
    told = virtual_host.get(f"/scheduled/{HOME}")
    assert (told["total"], told["queues"], told["complete"]) == (2, [{"name": "orders", "scheduled": 2}], True)
    first, second = told["messages"]
    assert first["due_at"] < second["due_at"]
    assert (first["queue"], first["routing_key"], first["payload_bytes"]) == ("orders", "orders", len("later"))
    assert len(virtual_host.get(f"/scheduled/{HOME}?limit=1")["messages"]) == 1
    assert virtual_host.get(f"/scheduled/{HOME}?queue=mail")["messages"] == []


@pytest.mark.parametrize("limit", [0, TOLD_MAX + 1])
def test_a_limit_that_cannot_be_is_refused(virtual_host: Api, limit: int) -> None:
    assert virtual_host.call("GET", f"/scheduled/{HOME}?limit={limit}").status == 400


def test_nothing_is_told_of_queues_that_one_may_not_read(stranger: Api) -> None:
    assert stranger.get(f"/dead-letters/{HOME}") == {"groups": [], "queues": [], "complete": True}
    assert stranger.get(f"/scheduled/{HOME}")["total"] == 0


def test_the_routing_of_a_virtual_host_is_told_as_edges(virtual_host: Api) -> None:
    virtual_host.put(
        f"/exchanges/{HOME}/shop", {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "lost"}}
    )
    for key in ("a", "b"):
        virtual_host.post(f"/bindings/{HOME}/e/shop/q/orders", {"routing_key": key})
    told = virtual_host.get(f"/routing/{HOME}")
    edges = {(row["source"], row["destination"], row["kind"]): row for row in told["edges"]}
    assert edges.keys() == {
        ("later", "orders", "binding"),
        ("shop", "orders", "binding"),
        ("shop", "lost", "alternate"),
        ("orders", "dead", "dead letters"),
        ("mail", "dead", "dead letters"),
    }
    bound = edges["shop", "orders", "binding"]
    assert (bound["bindings"], bound["routing_keys"]) == (2, ["a", "b"])
    types = {row["name"]: row["type"] for row in told["exchanges"]}
    assert types == {"later": "x-delayed-message", "lost": None, "shop": "topic"}
    assert [row["source"] for row in virtual_host.get(f"/routing/{HOME}?name=mail")["edges"]] == ["mail"]
    assert virtual_host.call("GET", f"/routing/{HOME}?name={'a' * 256}").status == 400


def test_a_node_tells_what_it_keeps(virtual_host: Api) -> None:
    node = virtual_host.get("/overview")["node"]
    told = virtual_host.get(f"/nodes/{node}/storage")
    assert told["journal"]["segments"] >= 1
    assert told["journal"]["log_bytes"] > 0
    assert told["streams"] == {"partitions": 0, "segments": 0, "bytes": 0}
    assert "Python" in told["versions"]
    assert virtual_host.call("GET", "/nodes/another/storage").status == 404
