"""Sending, taking and settling over REST, as the documents say it."""

import asyncio
import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.protocols.http.async_broker import ANSWER_BYTES_MAX, AsyncBroker
from leveret.protocols.rest.leases import DEQUEUE_MAX, RECEIPTS_MAX
from leveret.protocols.rest.messages import BATCH_MAX, BROWSE_MAX
from leveret.protocols.rest.operation import Scans
from tests.protocols.rest.world import RestWorld
from tests.waiting import PATIENCE_S

NOW = "2023-11-14T22:13:20.000Z"


def test_the_walk_of_a_message(world: RestWorld, orders: leveret.Queue) -> None:
    sent = world.call(
        "POST /queues/orders/messages",
        {
            "priority": 8,
            "payload": {"order_id": "ORD-12345", "total": 299.99},
            "delay_seconds": 0,
            "attributes": {"contentType": "application/json", "correlationId": "corr-xyz-789"},
        },
    )
    assert sent.status == 201
    message_id = sent.json["message_id"]
    assert sent.json == {
        "message_id": message_id,
        "queue_name": "orders",
        "priority": 8,
        "enqueued_at": NOW,
        "visible_at": NOW,
    }
    took = world.call(
        "POST /queues/orders/dequeue", {"max_messages": 1, "visibility_timeout": 30, "consumer_id": "worker-node-5"}
    )
    assert took.status == 200
    (message,) = took.json["messages"]
    receipt = message.pop("receipt_handle")
    assert message == {
        "message_id": message_id,
        "priority": 8,
        "payload": {"order_id": "ORD-12345", "total": 299.99},
        "enqueued_at": NOW,
        "receive_count": 1,
        "attributes": {"contentType": "application/json", "correlationId": "corr-xyz-789"},
        "routing_key": "orders",
        "received_at": NOW,
        "visible_until": "2023-11-14T22:13:50.000Z",
    }
    path = f"/queues/orders/messages/{message_id}"
    kept = world.call(f"PATCH {path}/visibility", {"receipt_handle": receipt, "visibility_timeout": 60})
    assert (kept.status, kept.json["visible_until"]) == (200, "2023-11-14T22:14:20.000Z")
    assert world.call(f"DELETE {path}", {"receipt_handle": receipt}).status == 204
    again = world.call(f"DELETE {path}", {"receipt_handle": receipt})
    assert (again.status, again.headers["content-type"]) == (409, "application/problem+json")
    assert orders.stats().acked == 1


def test_a_message_of_a_queue_without_a_timeout_comes_back_all_the_same(world: RestWorld) -> None:
    world.ok("PUT /queues/plain", {"visibility_timeout": None})  # as AMQP declares queues
    world.ok("POST /queues/plain/messages", {"payload": 1})
    assert world.take("plain")["visible_until"] == "2023-11-14T22:13:50.000Z"


@pytest.mark.parametrize("payload", [{"a": [1, None]}, [], "text äöü", "", 7, 2.5, 10**30, [[[[]]]] * 3, True, None])
def test_a_payload_comes_out_as_it_went_in(world: RestWorld, orders: leveret.Queue, payload: Any) -> None:
    world.ok("POST /queues/orders/messages", {"payload": payload})
    assert world.take("orders")["payload"] == payload


def test_bytes_travel_in_base64(world: RestWorld, orders: leveret.Queue) -> None:
    data = bytes(range(256))
    world.ok("POST /queues/orders/messages", {"payload_base64": base64.b64encode(data).decode()})
    message = world.take("orders")
    assert base64.b64decode(message["payload_base64"]) == data
    assert "payload" not in message


def test_whoever_asks_gets_every_body_byte_by_byte(world: RestWorld, orders: leveret.Queue) -> None:
    orders.send({"a": 1.0})
    message = world.take("orders", encoding="base64")
    assert base64.b64decode(message["payload_base64"]) == b'{"a":1.0}'


@pytest.mark.parametrize("data", [b"\xff", b"{", b"NaN", b"[" * 100_000])
def test_a_body_that_is_not_what_it_says_comes_as_bytes(world: RestWorld, orders: leveret.Queue, data: bytes) -> None:
    orders.send(data, properties={"content_type": "application/json"})
    assert base64.b64decode(world.take("orders")["payload_base64"]) == data


def test_text_that_is_said_to_be_json_is_sent_as_json(world: RestWorld, orders: leveret.Queue) -> None:
    world.ok("POST /queues/orders/messages", {"payload": "a", "attributes": {"contentType": "application/json"}})
    (message,) = orders.receive()
    assert (message.data, message.body) == (b'"a"', "a")


def test_higher_priorities_come_first(world: RestWorld, orders: leveret.Queue) -> None:
    for priority in (1, 10, 5):
        world.ok("POST /queues/orders/messages", {"payload": priority, "priority": priority})
    taken = world.ok("POST /queues/orders/dequeue", {"max_messages": 3})["messages"]
    assert [message["priority"] for message in taken] == [10, 5, 1]


def test_delay_and_time_to_live(world: RestWorld, orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    sent = world.ok("POST /queues/orders/messages", {"payload": 1, "delay_seconds": 5, "ttl_seconds": 60})
    assert sent["visible_at"] == "2023-11-14T22:13:25.000Z"
    assert world.ok("POST /queues/orders/dequeue", {}) == {"messages": []}
    clock.advance(5)
    assert world.take("orders", visibility_timeout=1)["ttl_seconds"] == 60
    clock.advance(60)
    assert world.ok("POST /queues/orders/dequeue") == {"messages": []}


def test_groups_headers_and_keys_are_shown(world: RestWorld, orders: leveret.Queue) -> None:
    message = {"payload": 1, "group_id": "g", "headers": {"tenant": "a", "n": 1}}
    world.ok("POST /queues/orders/messages", message, Idempotency_Key="k")
    taken = world.take("orders")
    assert (taken["group_id"], taken["headers"], taken["idempotency_key"]) == ("g", {"tenant": "a", "n": 1}, "k")


def test_a_repeated_request_sends_nothing(world: RestWorld, orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    send = "POST /queues/orders/messages"
    first = world.ok(send, {"payload": 1}, Idempotency_Key="k1")
    clock.advance(23 * 3600)
    assert world.ok(send, {"payload": 1}, Idempotency_Key="k1")["message_id"] == first["message_id"]
    clock.advance(3600)
    assert world.ok(send, {"payload": 1}, Idempotency_Key="k1")["message_id"] != first["message_id"]
    assert len(orders) == 2


@pytest.mark.parametrize("path", ["messages", "messages/batch"])
def test_a_key_is_refused_for_another_message(tmp_path: Path, path: str) -> None:
    def told(message: dict[str, Any]) -> Any:
        with leveret.open(tmp_path, spare_bytes=0, disk_free_min_bytes=0) as broker, RestWorld(broker) as world:
            broker.queue("orders")
            body = {"messages": [message]} if path.endswith("batch") else message
            answer = world.call(f"POST /queues/orders/{path}", body, Idempotency_Key="k")
            return answer.status, answer.json.get("title"), len(broker.queue("orders"))

    assert told({"payload": 1}) == (201, None, 1)
    assert told({"payload": 1}) == (201, None, 1)
    for other in ({"payload": 2}, {"payload": 1, "priority": 3}, {"payload": 1, "group_id": "g"}):
        assert told(other) == (422, "Key reused", 1)


def test_the_answer_has_the_priority_that_counts(world: RestWorld) -> None:
    world.broker.queue("plain")
    sent = world.ok("POST /queues/plain/messages", {"payload": 1, "priority": 8})
    assert (sent["priority"], sent["notice"][:31]) == (0, "the queue has priorities up to ")
    assert world.take("plain")["priority"] == 0
    world.ok("PUT /queues/ten", {})
    sent = world.ok("POST /queues/ten/messages", {"payload": 1, "priority": 8})
    assert (sent["priority"], "notice" in sent) == (8, False)


def test_many_messages_at_once(world: RestWorld) -> None:
    world.ok("PUT /queues/small", {"max_length": 2, "overflow": "reject-publish"})
    sent = world.ok("POST /queues/small/messages/batch", {"messages": [{"payload": n} for n in range(3)]})
    assert sent["failed"] == 1
    assert [row.get("error", "")[:9] for row in sent["messages"]] == ["", "", "the queue"]


def test_a_repeated_batch_sends_nothing(world: RestWorld, orders: leveret.Queue) -> None:
    batch = {"messages": [{"payload": 1}, {"payload": 1, "idempotency_key": "own"}]}
    sent = [world.ok("POST /queues/orders/messages/batch", batch, Idempotency_Key="b") for _ in range(2)]
    ids = [[row["message_id"] for row in each["messages"]] for each in sent]
    assert ids[0] == ids[1]
    assert len(orders) == 2


def test_nack_reject_and_visibility_zero(world: RestWorld, orders: leveret.Queue) -> None:
    sent = world.ok("POST /queues/orders/messages", {"payload": "x"})["message_id"]
    path = f"/queues/orders/messages/{sent}"
    world.ok(f"POST {path}/nack", {"receipt_handle": world.take("orders")["receipt_handle"], "delay_seconds": 0})
    receipt = world.take("orders")["receipt_handle"]
    world.ok(f"PATCH {path}/visibility", {"receipt_handle": receipt, "visibility_timeout": 0})
    message = world.take("orders")
    assert message["receive_count"] == 3
    world.ok(f"POST {path}/reject", {"receipt_handle": message["receipt_handle"]})
    dead = world.take("dlq")
    assert dead["message_id"] == sent
    assert dead["headers"]["x-first-death-reason"] == "rejected"
    world.ok(f"DELETE /queues/dlq/messages/{sent}", {"receipt_handle": dead["receipt_handle"]})


def test_a_receipt_may_be_in_the_query(world: RestWorld, orders: leveret.Queue) -> None:
    orders.send("x")
    message = world.take("orders")
    assert world.call(f"DELETE /queues/orders/messages/{message['message_id']}").status == 400
    path = f"/queues/orders/messages/{message['message_id']}?receipt_handle={message['receipt_handle']}"
    assert world.call(f"DELETE {path}").status == 204


def test_a_receipt_of_another_message_is_refused(world: RestWorld, orders: leveret.Queue) -> None:
    orders.send_many(["a", "b"])
    one, other = world.ok("POST /queues/orders/dequeue", {"max_messages": 2})["messages"]
    refused = world.call(
        f"DELETE /queues/orders/messages/{one['message_id']}", {"receipt_handle": other["receipt_handle"]}
    )
    assert refused.status == 409
    assert orders.stats().leased == 2


def test_acknowledging_many_names_those_that_are_not_leased(world: RestWorld, orders: leveret.Queue) -> None:
    orders.send_many(["a", "b"])
    taken = world.ok("POST /queues/orders/dequeue", {"max_messages": 2})["messages"]
    receipts = [message["receipt_handle"] for message in taken]
    done = world.ok("POST /queues/orders/acknowledge", {"receipt_handles": [*receipts, receipts[0], "bad"]})
    assert done["acknowledged"] == 2
    assert [row["receipt_handle"] for row in done["failed"]] == [receipts[0], "bad"]


def test_looking_takes_nothing(world: RestWorld, orders: leveret.Queue) -> None:
    orders.send_many(["red", "green"])
    (message,) = world.ok("GET /queues/orders/messages?contains=gre&limit=5")["messages"]
    assert (message["payload"], message["state"], message["due_at"]) == ("green", "ready", None)
    assert len(orders) == 2


@pytest.mark.parametrize("delay", [0, 60])
def test_one_answer_has_only_so_many_bytes(world: RestWorld, orders: leveret.Queue, delay: int) -> None:
    size = ANSWER_BYTES_MAX // 3 - 1_000
    orders.send_many([leveret.Outgoing("x" * size, delay=delay) for _ in range(5)])
    for path in ("scheduled", "messages?state=scheduled") if delay else ("messages",):
        seen = world.ok(f"GET /queues/orders/{path}")["messages"]
        assert [len(each["payload"]) for each in seen] == [size] * 3
    if not delay:
        assert len(world.ok("POST /queues/orders/dequeue", {"max_messages": 10})["messages"]) == 3
        assert len(world.ok("POST /queues/orders/dequeue", {"max_messages": 10})["messages"]) == 2


def test_scheduled_messages_are_listed_and_cancelled(world: RestWorld, orders: leveret.Queue) -> None:
    sent = orders.send("later", delay=60)
    (row,) = world.ok("GET /queues/orders/scheduled")["messages"]
    assert (row["message_id"], row["due_at"]) == (sent, "2023-11-14T22:14:20.000Z")
    assert world.call(f"DELETE /queues/orders/scheduled/{sent}").status == 204
    assert world.call(f"DELETE /queues/orders/scheduled/{sent}").status == 404


def test_redrive_counts_then_moves(world: RestWorld, orders: leveret.Queue) -> None:
    for body in ("bad", "worse"):
        orders.send(body)
        orders.receive()[0].reject()
    only = {"filter": {"contains": "worse"}}
    assert world.ok("POST /queues/dlq/redrive", {"dry_run": True, **only}) == {"matched": 1, "moved": 0, "skipped": 0}
    assert world.ok("POST /queues/dlq/redrive", only) == {"matched": 1, "moved": 1, "skipped": 0}
    assert [message.body for message in orders.receive()] == ["worse"]


def test_discard_counts_then_removes_and_wants_a_condition(world: RestWorld, orders: leveret.Queue) -> None:
    orders.send_many(["keep", "drop", "drop too"])
    only = {"filter": {"contains": "drop"}, "limit": 1}
    assert world.ok("POST /queues/orders/discard", {"dry_run": True, **only}) == {"matched": 1}
    assert world.ok("POST /queues/orders/discard", only) == {"matched": 1}
    assert [message.body for message in orders.browse()] == ["keep", "drop too"]
    assert world.call("POST /queues/orders/discard", {}).status == 400


def test_a_redrive_with_a_rate_has_an_end(world: RestWorld, orders: leveret.Queue) -> None:
    assert world.call("POST /queues/dlq/redrive", {"rate_per_second": 1}).status == 400
    assert world.call("POST /queues/dlq/redrive", {"rate_per_second": 1, "limit": 301}).status == 400
    assert world.call("POST /queues/dlq/redrive", {"rate_per_second": 1, "limit": 300}).status == 200


def test_the_journal_knows_who_took_a_message(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker, RestWorld(broker) as world, ThreadPoolExecutor() as threads:
        orders = broker.queue("orders")
        orders.send("a")
        world.take("orders", consumer_id="worker-1")
        waiting = threads.submit(world.take, "orders", consumer_id="worker-2", wait_seconds=60)
        orders.send("b")
        assert waiting.result()["payload"] == "b"
        orders.send("c")
        world.take("orders")
        with broker.runtime as core:
            assert list(core.engine.consumer_ids) == ["guest/worker-1", "guest/worker-2", "guest"]


@pytest.mark.parametrize(
    ("line", "body", "text"),
    [
        ("POST /queues/orders/messages", {"payload": 1, "priority": 0}, "priority is a whole number from 1 to 10"),
        ("POST /queues/orders/messages", {"payload": 1, "priority": 11}, "priority is a whole number"),
        ("POST /queues/orders/messages", {"payload": 1, "priority": True}, "priority is a whole number"),
        ("POST /queues/orders/messages", {"payload": 1, "delay_seconds": -1}, "delay_seconds is a number from 0"),
        ("POST /queues/orders/messages", {"payload": 1, "ttl_seconds": "1"}, "ttl_seconds is a number"),
        ("POST /queues/orders/messages", {"payload": 1, "group_id": ""}, "group_id is a string of 1 to"),
        ("POST /queues/orders/messages", {"payload": 1, "prioritty": 5}, "did you mean 'priority'?"),
        ("POST /queues/orders/messages", {"payload": 1, "payload_base64": ""}, "give one of them"),
        ("POST /queues/orders/messages", {}, "give one of them"),
        ("POST /queues/orders/messages", {"payload_base64": "!"}, "payload_base64 is not base64"),
        ("POST /queues/orders/messages", {"payload": 1, "headers": []}, "headers is an object"),
        ("POST /queues/orders/messages", {"payload": 1, "headers": {str(n): n for n in range(257)}}, "at most 256"),
        ("POST /queues/orders/messages", {"payload": 1, "attributes": {"own": 1}}, "unknown field"),
        ("POST /queues/orders/messages", [], "the body is a JSON object"),
        ("POST /queues/orders/messages", b"{", "the body is not JSON"),
        ("POST /queues/orders/messages", b'{"payload": NaN}', "NaN is not a number of JSON"),
        ("POST /queues/orders/messages", b'{"payload": "\\ud800"}', "the body is not JSON"),
        ("POST /queues/orders/messages", b"[" * 100_000, "nested too deep"),
        ("POST /queues/orders/messages/batch", {}, "messages is missing"),
        ("POST /queues/orders/messages/batch", {"messages": []}, "messages is an array of 1 to"),
        ("POST /queues/orders/messages/batch", {"messages": [{"payload": 1}] * (BATCH_MAX + 1)}, "split it up"),
        ("POST /queues/orders/dequeue", {"max_messages": 0}, "max_messages is a whole number from 1"),
        ("POST /queues/orders/dequeue", {"max_messages": DEQUEUE_MAX + 1}, "max_messages"),
        ("POST /queues/orders/dequeue", {"wait_seconds": 61}, "wait_seconds is a number from 0 to 60"),
        ("POST /queues/orders/dequeue", {"encoding": "hex"}, "encoding is one of base64"),
        ("POST /queues/orders/acknowledge", {"receipt_handles": ["x"] * (RECEIPTS_MAX + 1)}, "split it up"),
        (f"GET /queues/orders/messages?limit={BROWSE_MAX + 1}", None, "limit is a whole number"),
        ("GET /queues/orders/messages?limit=x", None, "limit is a whole number"),
        ("GET /queues/orders/messages?state=odd", None, "state is one of ready"),
        ("GET /queues/orders/messages?since=x", None, "since is a number"),
        ("GET /queues/orders/messages?since=nan", None, "since is a number"),
        ("GET /queues/orders/stats?x=1", None, "takes no query"),
    ],
)
def test_what_makes_no_sense_is_refused(
    world: RestWorld, orders: leveret.Queue, line: str, body: Any, text: str
) -> None:
    refused = world.call(line, body)
    assert (refused.status, refused.headers["content-type"]) == (400, "application/problem+json")
    assert text in refused.json["detail"]


def test_an_empty_key_is_refused(world: RestWorld, orders: leveret.Queue) -> None:
    send = "POST /queues/orders/messages"
    assert world.call(send, {"payload": 1}, Idempotency_Key="").status == 400
    assert world.call(send, {"payload": 1}, Idempotency_Key="k" * 1_025).status == 400


def test_a_message_that_is_too_large_is_refused(world: RestWorld) -> None:
    world.ok("PUT /queues/tiny", {"max_message_size": 10})
    assert world.call("POST /queues/tiny/messages", {"payload": "x" * 11}).status == 413


def test_a_queue_that_is_full_says_so(world: RestWorld) -> None:
    world.ok("PUT /queues/full", {"max_length": 1, "overflow": "reject-publish"})
    world.ok("POST /queues/full/messages", {"payload": 1})
    refused = world.call("POST /queues/full/messages", {"payload": 1})
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")


def test_a_queue_that_is_not_there(world: RestWorld) -> None:
    refused = world.call("POST /queues/none/messages", {"payload": 1})
    assert (refused.status, refused.json["title"]) == (404, "Queue not found")


def test_only_some_look_through_queues_at_once(world: RestWorld) -> None:
    started = threading.Barrier(2)

    async def scenario() -> list[object]:
        scans = Scans(AsyncBroker(world.broker.runtime), at_once_max=1)
        first = asyncio.create_task(scans.run(lambda: str(started.wait(PATIENCE_S))))
        await asyncio.sleep(0)
        with pytest.raises(leveret.TooMany, match="try again later"):
            await scans.run(lambda: "second")
        first.cancel()
        await asyncio.wait([first])
        with pytest.raises(leveret.TooMany):
            await scans.run(lambda: "the work goes on when its client has gone")
        started.wait(PATIENCE_S)
        while True:
            try:
                return [await scans.run(lambda: "third")]
            except leveret.TooMany:
                await asyncio.sleep(0.001)

    assert asyncio.run(scenario()) == ["third"]


@pytest.mark.parametrize("verb", ["DELETE /queues/orders/messages/-", "POST /queues/orders/messages/-/reject"])
def test_a_receipt_of_the_owner_before_settles_what_is_kept_for_it(
    world: RestWorld, orders: leveret.Queue, verb: str
) -> None:
    orders.send("x")
    old = world.take("orders")["receipt_handle"]
    orders.nack(old)
    (kept,) = orders.receive()  # as a node does that has just taken over
    assert world.call(verb, {"receipt_handle": old}).status == 409
    with world.broker.runtime as core:
        held = orders.core.find_lease(*world.broker.runtime.receipts.read(orders.core.id, kept.receipt))
        core.kept = lambda queue, seq: held if seq == held.seq else None
    assert world.call(verb, {"receipt_handle": old}).status == 204
    assert world.call(verb, {"receipt_handle": old}).status == 409
    assert world.ok("GET /queues/orders")["leased"] == 0
