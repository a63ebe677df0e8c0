"""Publishing, taking and moving single messages."""

import base64
from typing import Any

import pytest

from leveret.wire import methods as m
from tests.protocols.amqp.targets import SocketTarget
from tests.protocols.management.scene import VHOST, Api
from tests.server_process import ServerProcess


@pytest.fixture
def queue(api: Api, request: pytest.FixtureRequest) -> str:
    name = f"messages-{abs(hash(request.node.name))}"
    api.put(f"/queues/{VHOST}/{name}", {"durable": True})
    return name


def publish(api: Api, queue: str, payload: str = "hello", encoding: str = "string", **properties: Any) -> bool:
    body = {"properties": properties, "routing_key": queue, "payload": payload, "payload_encoding": encoding}
    return bool(api.post(f"/exchanges/{VHOST}/amq.default/publish", body)["routed"])


def get(api: Api, queue: str, count: int = 1, mode: str = "ack_requeue_false", **options: Any) -> list[dict[str, Any]]:
    body = {"count": count, "ackmode": mode, "encoding": "auto", **options}
    rows: list[dict[str, Any]] = api.post(f"/queues/{VHOST}/{queue}/get", body)
    return rows


def depth(api: Api, queue: str) -> int:
    return int(api.get(f"/queues/{VHOST}/{queue}")["messages"])


def test_a_message_comes_back_with_its_properties(api: Api, queue: str) -> None:
    properties: dict[str, Any] = {
        "content_type": "text/plain", "headers": {"a": 1, "b": [True, None, {"c": "d"}]}, "delivery_mode": 2,
        "priority": 4, "correlation_id": "c", "reply_to": "r", "message_id": "m", "timestamp": 1_700_000_000,
        "type": "t", "app_id": "x", "user_id": "guest", "expiration": "60000",
    }  # fmt: skip
    assert publish(api, queue, "hello", **properties)
    assert get(api, queue) == [
        {
            "payload_bytes": 5, "redelivered": False, "exchange": "", "routing_key": queue, "message_count": 0,
            "properties": properties, "payload": "hello", "payload_encoding": "string",
        }
    ]  # fmt: skip
    assert depth(api, queue) == 0


def test_a_message_without_a_queue_is_not_routed(api: Api) -> None:
    assert not publish(api, "no such queue")


def test_bytes_go_in_and_out_in_base64(api: Api, queue: str) -> None:
    data = base64.b64encode(bytes(range(256))).decode()
    publish(api, queue, data, "base64")
    publish(api, queue, "text")
    first, second = get(api, queue, 2, encoding="base64")
    assert (first["payload"], first["payload_encoding"]) == (data, "base64")
    assert (second["payload"], second["payload_encoding"]) == (base64.b64encode(b"text").decode(), "base64")


def test_bytes_that_are_no_text_are_in_base64_anyway(api: Api, queue: str) -> None:
    publish(api, queue, "/w==", "base64")
    assert get(api, queue)[0]["payload_encoding"] == "base64"


def test_a_long_body_is_cut(api: Api, queue: str) -> None:
    publish(api, queue, "hello")
    row = get(api, queue, truncate=2)[0]
    assert (row["payload"], row["payload_bytes"]) == ("he", 5)


@pytest.mark.parametrize("mode", ["ack_requeue_true", "reject_requeue_true"])
def test_messages_that_are_given_back_keep_their_order(api: Api, queue: str, mode: str) -> None:
    for payload in "abc":
        publish(api, queue, payload)
    for redelivered in (False, True):
        rows = get(api, queue, 10, mode)
        assert [row["payload"] for row in rows] == ["a", "b", "c"]
        assert [row["redelivered"] for row in rows] == [redelivered] * 3
        assert [row["message_count"] for row in rows] == [2, 1, 0]
    assert depth(api, queue) == 3


def test_a_rejected_message_is_dead_lettered(api: Api, queue: str) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    api.put(f"/queues/{VHOST}/{queue}-source", {"durable": True, "arguments": arguments})
    publish(api, f"{queue}-source")
    get(api, f"{queue}-source", mode="reject_requeue_false")
    assert get(api, queue)[0]["properties"]["headers"]["x-death"][0]["reason"] == "rejected"


def test_a_large_body_is_kept_outside_of_the_log_and_comes_back(api: Api, queue: str) -> None:
    text = "x" * 400_000
    publish(api, queue, text)
    assert get(api, queue, mode="ack_requeue_true")[0]["payload"] == text
    assert get(api, queue)[0]["payload_bytes"] == len(text)


def test_what_one_answer_has_no_room_for_is_given_back(api: Api, queue: str) -> None:
    for letter in "abc":
        publish(api, queue, letter * 7_000_000)
    assert [row["payload"][0] for row in get(api, queue, 5, truncate=1)] == ["a", "b"]
    row = get(api, queue, 5, truncate=1)[0]
    assert (row["payload"], row["payload_bytes"], row["redelivered"]) == ("c", 7_000_000, True)


def test_deaths_are_not_taken_from_publishers(api: Api, queue: str) -> None:
    publish(api, queue, headers={"x-death": [{"count": 7}], "mine": 1})
    assert get(api, queue)[0]["properties"]["headers"] == {"mine": 1}


def test_messages_move_to_another_queue(api: Api, queue: str) -> None:
    api.put(f"/queues/{VHOST}/{queue}-target", {"durable": True})
    for payload in "abc":
        publish(api, queue, payload)
    path = f"/queues/{VHOST}/{queue}/move"
    assert api.post(path, {"destination": f"{queue}-target", "limit": 2})["moved"] == 2
    assert (depth(api, queue), depth(api, f"{queue}-target")) == (1, 2)
    assert [row["payload"] for row in get(api, f"{queue}-target", 5)] == ["a", "b"]
    assert api.call("POST", path, {"destination": "nowhere"}).status == 404


def test_a_purge_tells_how_many_went(api: Api, queue: str) -> None:
    publish(api, queue)
    publish(api, queue)
    answer = api.call("DELETE", f"/queues/{VHOST}/{queue}/contents")
    assert (answer.status, answer.headers["x-messages-deleted"], depth(api, queue)) == (204, "2", 0)


PUBLISH: dict[str, Any] = {"properties": {}, "routing_key": "x", "payload": "x", "payload_encoding": "string"}
GET: dict[str, Any] = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "key_missing,payload"),
        ({**PUBLISH, "payload_encoding": "base64", "payload": "!!"}, "not what payload_encoding says"),
        ({**PUBLISH, "payload_encoding": "rot13"}, "string or base64"),
        ({**PUBLISH, "payload": 7}, "payload is not a string"),
        ({**PUBLISH, "properties": "x"}, "properties are an object"),
        ({**PUBLISH, "properties": {"priority": "x"}}, "priority is a whole number"),
        ({**PUBLISH, "properties": {"priority": 256}}, "priority is a whole number"),
        ({**PUBLISH, "properties": {"timestamp": -1}}, "timestamp is a whole number"),
        ({**PUBLISH, "properties": {"headers": []}}, "headers are an object"),
        ({**PUBLISH, "properties": {"headers": {"a" * 300: 1}}}, "the limit is 255"),
        ({**PUBLISH, "properties": {"type": "t" * 256}}, "type is text of at most 255"),
        ({**PUBLISH, "properties": {"expiration": "-1"}}, "expiration is a number"),
        ({**PUBLISH, "properties": {"user_id": "alice"}}, "user_id property set to 'alice'"),
        ({**PUBLISH, "routing_key": "k" * 256}, "routing key has 256 bytes"),
    ],
)
def test_a_publish_is_refused(api: Api, body: Any, reason: str) -> None:
    status, told, _ = api.call("POST", f"/exchanges/{VHOST}/amq.direct/publish", body)
    assert (status, told["error"]) == (400, "bad_request")
    assert reason in told["reason"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "[{key_missing,ackmode},{key_missing,count},{key_missing,encoding}]"),
        ({**GET, "ackmode": "never"}, "ackmode is one of"),
        ({**GET, "encoding": "rot13"}, "Unsupported encoding"),
        ({**GET, "count": -1}, "count is from 0"),
        ({**GET, "count": 1_000_000}, "count is from 0"),
        ({**GET, "count": True}, "count is not a int"),
        ({**GET, "truncate": -1}, "truncate is a number"),
        ({**GET, "truncate": None}, "truncate is not a int"),
    ],
)
def test_a_get_is_refused(api: Api, queue: str, body: Any, reason: str) -> None:
    status, told, _ = api.call("POST", f"/queues/{VHOST}/{queue}/get", body)
    assert (status, told["error"]) == (400, "bad_request")
    assert reason in told["reason"]


def test_permissions_on_topics_count(api: Api) -> None:
    alice = Api(api.port, "alice", "wonderland")
    path = f"/exchanges/{VHOST}/amq.topic/publish"
    assert alice.call("POST", path, {**PUBLISH, "routing_key": "allowed"}).status == 200
    status, told, _ = alice.call("POST", path, {**PUBLISH, "routing_key": "forbidden"})
    assert (status, told["error"]) == (401, "not_authorised")
    carbon = {**PUBLISH, "routing_key": "allowed", "properties": {"headers": {"CC": ["forbidden"]}}}
    assert alice.call("POST", path, carbon).status == 401


def test_permissions_on_topics_count_for_bindings(api: Api, server: ServerProcess) -> None:
    """The key that is bound is asked for, not the one that is shown: a byte that is no UTF-8 is shown as "?"."""
    alice = Api(api.port, "alice", "wonderland")
    topics = f"/topic-permissions/{VHOST}/alice"
    between = f"/bindings/{VHOST}/e/orders/q/orders"
    with SocketTarget("127.0.0.1", server.port).connect().open(vhost=VHOST) as raw:
        assert raw.call(1, m.QueueBind("orders", "orders", "\udcff")) == m.QueueBindOk()
    api.put(topics, {"exchange": "orders", "write": "", "read": r"^(a|\?)$"})
    try:
        assert alice.call("POST", between, {"routing_key": "a"}).status == 201
        assert alice.call("POST", between, {"routing_key": ""}).status == 401
        assert alice.call("DELETE", f"{between}/%25FF").status == 401
        assert alice.call("DELETE", f"{between}/a").status == 204
        api.delete(f"{between}/%25FF")
    finally:
        api.delete(f"{topics}/orders")
