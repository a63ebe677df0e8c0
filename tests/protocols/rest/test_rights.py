"""Rights that an operation needs beside the one on the queue in its path: destinations, keys, the publisher's name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.core.tables import encode_table
from leveret.ingest.row_groups import constant
from tests.ingest.batches import Batch, row_group, texts
from tests.protocols.rest.world import RestWorld

TOPIC = "POST /exchanges/events/messages"
OWN = "userId"


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[RestWorld]:
    """A server with a data directory, which sinks need."""
    with leveret.open(str(tmp_path)) as broker, RestWorld(broker) as running:
        yield running


def dead_letter(world: RestWorld, queue: str) -> None:
    """Let a message die in a queue."""
    world.ok(f"POST /queues/{queue}/messages", {"payload": queue})
    taken = world.take(queue)
    world.ok(f"POST /queues/{queue}/messages/{taken['message_id']}/reject", {"receipt_handle": taken["receipt_handle"]})


@pytest.mark.parametrize(
    ("rights", "status"),
    [
        ({"read": "^dlq$", "write": "^orders$"}, 200),
        ({"configure": ".*", "write": ".*"}, 403),
        ({"configure": ".*", "read": ".*"}, 403),
        ({"configure": ".*", "read": "^orders$", "write": "^dlq$"}, 403),
    ],
)
def test_a_redrive_needs_read_on_the_source_and_write_on_the_destination(
    world: RestWorld, orders: leveret.Queue, rights: dict[str, str], status: int
) -> None:
    token = world.add_user("one", **rights)
    assert world.call("POST /queues/dlq/redrive", {"to": "orders"}, token=token).status == status


def test_a_redrive_without_a_destination_leaves_what_the_caller_may_not_write_to(world: RestWorld) -> None:
    for name in ("mine", "theirs"):
        world.ok(f"PUT /queues/{name}", {"dead_letter": "dlq", "max_deliveries": 1})
        dead_letter(world, name)
    token = world.add_user("one", configure="^dlq$", read="^dlq$", write="^mine$")
    moved = world.ok("POST /queues/dlq/redrive", {}, token=token)
    assert moved == {"matched": 2, "moved": 1, "skipped": 1}
    assert [world.broker.queue(name).stats().ready for name in ("mine", "theirs")] == [1, 0]


@pytest.mark.parametrize("line", ["PUT /queues/new", "PATCH /queues/plain"])
def test_a_dead_letter_queue_needs_read_on_the_queue_and_write_on_its_destination(world: RestWorld, line: str) -> None:
    world.ok("PUT /queues/plain")
    world.ok("PUT /queues/dlq")
    body = {"dead_letter": "dlq"}
    assert world.call(line, body, token=world.add_user("a", configure=".*", write=".*")).status == 403
    assert world.call(line, body, token=world.add_user("b", configure=".*", read=".*")).status == 403
    allowed = world.add_user("c", configure=".*", read="^(new|plain)$", write="^dlq$")
    assert world.call(line, body, token=allowed).status in (200, 201)


def test_a_dead_letter_exchange_needs_read_on_the_queue(world: RestWorld) -> None:
    body = {"arguments": {"x-dead-letter-exchange": "amq.fanout"}}
    refused = world.call("PUT /queues/new", body, token=world.add_user("a", configure=".*", write=".*"))
    assert (refused.status, "read access to queue 'new'" in refused.json["detail"]) == (403, True)
    allowed = world.add_user("b", configure=".*", write="^amq.fanout$", read="^new$")
    assert world.call("PUT /queues/new", body, token=allowed).status == 201


@pytest.mark.parametrize("option", [{"ttl": 1}, {"max_length": 1}, {"max_bytes": 1}, {"max_deliveries": 1}])
def test_settings_that_send_messages_to_the_dead_letter_queue_need_the_same(
    world: RestWorld, orders: leveret.Queue, option: dict[str, int]
) -> None:
    line = "PATCH /queues/orders"
    assert world.call(line, option, token=world.add_user("a", configure=".*", write=".*")).status == 403
    assert world.call(line, option, token=world.add_user("b", configure=".*", read=".*")).status == 403
    allowed = world.add_user("c", configure="^orders$", read="^orders$", write="^dlq$")
    assert world.call(line, option, token=allowed).status == 200
    plain = world.add_user("d", configure="^orders$")
    assert world.call(line, {"visibility_timeout": 5}, token=plain).status == 200
    world.ok("PUT /queues/alone")
    alone = world.add_user("e", configure="^alone$")
    assert world.call("PATCH /queues/alone", option, token=alone).status == 200


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_to_a_topic_exchange_need_their_keys(world: RestWorld, header: str) -> None:
    world.ok("PUT /exchanges/events", {"type": "topic"})
    token = world.add_user("one", write=".*")
    with world.broker.runtime:
        world.access.set_topic_permission("one", "/", "events", "^a\\.", "")
    sent = {"payload": 1, "routing_key": "a.b", "headers": {header: ["a.c"]}}
    assert world.call(TOPIC, sent, token=token).status == 200
    refused = world.call(TOPIC, {**sent, "headers": {header: ["a.c", "b.a"]}}, token=token)
    assert (refused.status, "topic 'b.a'" in refused.json["detail"]) == (403, True)


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_of_a_batch_need_their_keys(stored: RestWorld, header: str) -> None:
    stored.ok("PUT /exchanges/events", {"type": "topic"})
    stored.ok("PUT /queues/orders")
    stored.ok("POST /exchanges/events/bindings", {"destination": "orders", "routing_key": "#"})
    token = stored.add_user("one", write=".*")
    with stored.broker.runtime:
        stored.access.set_topic_permission("one", "/", "events", "^a\\.", "")

    def staged(number: int, *keys: str) -> Batch:
        tables = [encode_table({header: [key]}) for key in keys]
        columns = (constant("exchange", "events"), constant("routing_key", "a.b"), texts("headers", tables))
        rows = row_group([b"x"] * len(keys), *columns), len(keys)
        return Batch(stored, f"s{number}", 0, token).stage("0-0", rows)

    assert staged(0, "a.c", "a.d").commit().status == 200
    assert staged(1, "a.c", "b.a").commit().status == 403


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("POST /queues/orders/messages", lambda message: message),
        ("POST /queues/orders/messages/batch", lambda message: {"messages": [{"payload": 2}, message]}),
        ("POST /exchanges/events/messages", lambda message: message),
        ("POST /streams/clicks/records", lambda message: message),
        ("POST /streams/clicks/records/batch", lambda message: {"records": [{"payload": 2}, message]}),
    ],
)
def test_the_user_id_of_a_message_is_the_publishers(
    world: RestWorld, orders: leveret.Queue, line: str, shape: Any
) -> None:
    world.ok("PUT /exchanges/events", {"type": "topic"})
    world.ok("PUT /streams/clicks")
    token = world.add_user("one", write=".*")
    with world.broker.runtime:
        world.access.add_user("relay", "", ["impersonator"])
        world.access.set_permission("relay", "/", "", ".*", "")
    forged, own = ({"payload": 1, "attributes": {OWN: user}} for user in ("guest", "one"))
    refused = world.call(line, shape(forged), token=token)
    assert refused.status == 409, refused
    assert "user_id property set to 'guest' but authenticated user was 'one'" in refused.json["detail"]
    assert orders.stats().ready == 0, "nothing of a refused request is sent"
    assert world.call(line, shape(own), token=token).status in (200, 201)
    impersonator = world.add_token("relay", ["*:*", "manage"])
    assert world.call(line, shape(forged), token=impersonator).status in (200, 201)


def test_the_count_of_dead_letters_is_for_those_who_may_read_them(world: RestWorld, orders: leveret.Queue) -> None:
    world.ok("PUT /queues/theirs", {"dead_letter": "dlq"})
    dead_letter(world, "theirs")
    line = "GET /queues/orders/stats"
    assert world.ok(line, token=world.add_user("a", read="^(orders|dlq)$"))["dlq_count"] == 1
    assert world.ok(line, token=world.add_user("b", read="^orders$"))["dlq_count"] is None
