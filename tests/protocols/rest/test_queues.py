"""Queues, exchanges and bindings over REST."""

from typing import Any

import pytest

import leveret
from leveret.protocols.rest.queues import LIST_MAX
from tests.protocols.rest.world import RestWorld


def test_the_old_name_of_a_setting_still_works(world: RestWorld) -> None:
    assert world.ok("PUT /queues/old", {"max_retries": 2})["arguments"]["x-max-receive-count"] == 2
    assert world.ok("PATCH /queues/old", {"max_retries": 4})["arguments"]["x-max-receive-count"] == 4
    both = world.ok("PATCH /queues/old", {"max_retries": 4, "max_deliveries": 5})
    assert both["arguments"]["x-max-receive-count"] == 5


def test_a_queue_is_made_once(world: RestWorld) -> None:
    made = world.call("PUT /queues/orders", {"visibility_timeout": 45, "dead_letter": "dlq"})
    assert (made.status, made.json["visibility_timeout"], made.json["durable"]) == (201, 45, True)
    assert made.json["arguments"]["x-max-priority"] == 10
    assert world.call("PUT /queues/orders", {"visibility_timeout": 45}).status == 200
    assert world.call("PUT /queues/orders").status == 200
    contradicting = world.call("PUT /queues/orders", {"visibility_timeout": 46})
    assert (contradicting.status, contradicting.json["title"]) == (409, "Precondition failed")
    assert world.ok("GET /queues/orders")["visibility_timeout"] == 45
    assert world.ok("GET /queues/dlq")["name"] == "dlq"


def test_settings_are_changed(world: RestWorld, orders: leveret.Queue) -> None:
    before = world.call("GET /queues/orders").headers["etag"]
    changed = world.call("PATCH /queues/orders", {"visibility_timeout": 60, "dead_letter": "new"}, If_Match=before)
    assert (changed.status, changed.json["visibility_timeout"]) == (200, 60)
    assert (changed.json["arguments"]["x-max-priority"], world.call("GET /queues/new").status) == (10, 200)
    assert world.call("PATCH /queues/orders", {"ttl": 5}, If_Match=before).status == 412
    assert world.call("PATCH /queues/orders", {"ttl": 5}, If_Match=changed.headers["etag"]).status == 200
    assert "x-retention" not in world.ok("PATCH /queues/orders", {"retention": None})["arguments"]
    assert world.call("PATCH /queues/orders", {"max_priority": 3}).status in (400, 409)
    assert world.call("PATCH /queues/none", {"ttl": 5}).status == 404


def test_null_takes_a_default_away(world: RestWorld) -> None:
    made = world.ok("PUT /queues/plain", {"max_priority": None, "retention": None, "visibility_timeout": None})
    assert made["visibility_timeout"] is None
    assert not made["arguments"].keys() & {"x-max-priority", "x-retention", "x-visibility-timeout"}


def test_arguments_of_amqp_can_be_given(world: RestWorld) -> None:
    made = world.ok("PUT /queues/q", {"arguments": {"x-max-length": 5}, "durable": False})
    assert (made["arguments"]["x-max-length"], made["durable"]) == (5, False)


def test_queues_are_listed_page_by_page(world: RestWorld) -> None:
    for name in ("a1", "a2", "a3", "b1"):
        world.ok(f"PUT /queues/{name}")
    first = world.ok("GET /queues?prefix=a&limit=2")
    assert ([row["name"] for row in first["queues"]], first["next"]) == (["a1", "a2"], "a2")
    second = world.ok("GET /queues?prefix=a&limit=2&after=a2")
    assert ([row["name"] for row in second["queues"]], second["next"]) == (["a3"], None)
    assert world.call(f"GET /queues?limit={LIST_MAX + 1}").status == 400


def test_a_queue_is_deleted(world: RestWorld, orders: leveret.Queue) -> None:
    orders.send("x")
    assert world.call("DELETE /queues/orders?if_empty=true").status == 409
    assert world.call("DELETE /queues/orders?if_empty=maybe").status == 400
    assert world.ok("DELETE /queues/orders") == {"deleted": 1}
    assert world.call("DELETE /queues/orders").status == 404


def test_purge_pause_and_resume(world: RestWorld, orders: leveret.Queue) -> None:
    orders.send_many(["a", "b"])
    assert world.ok("POST /queues/orders/purge") == {"purged": 2}
    orders.send("c")
    assert world.call("POST /queues/orders/pause").status == 204
    assert world.ok("POST /queues/orders/dequeue") == {"messages": []}
    assert world.ok("GET /queues/orders")["paused"] is True
    assert world.call("POST /queues/orders/resume").status == 204
    assert world.take("orders")["payload"] == "c"


def test_figures(world: RestWorld, orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    for priority in (10, 9, 8, 8, 7, 6, 1, 0):
        orders.send("x", priority=priority)
    clock.advance(127.9)
    orders.receive()
    orders.receive()[0].reject()
    figures = world.ok("GET /queues/orders/stats")
    documented = {
        "queue_name": "orders",
        "approximate_message_count": 6,
        "messages_by_priority": {"10": 0, "9": 0, "8": 2, "7": 1, "6-1": 3},
        "oldest_message_age_seconds": 127,
        "in_flight_count": 1,
        "dlq_count": 1,
    }
    assert documented.items() <= figures.items()
    assert figures["depth_by_priority"] == {"8": 2, "7": 1, "6": 1, "1": 1, "0": 1}
    assert figures["published_by_priority"] == {"10": 1, "9": 1, "8": 2, "7": 1, "6": 1, "1": 1, "0": 1}
    assert figures["dead"]["rejected"] == 1


def test_the_limit_of_queues_counts_here_too(world: RestWorld, orders: leveret.Queue) -> None:
    with world.broker.runtime:
        world.access.set_vhost_limits("/", {"max-queues": 2})
    assert world.call("PUT /queues/orders").status == 200
    assert world.call("PUT /queues/third").status == 429


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"visibility_timeout": -1}, "visibility_timeout is a number from 0"),
        ({"max_deliveries": 0}, "max_deliveries is a whole number from 1"),
        ({"max_priority": 256}, "max_priority is a whole number from 0 to 255"),
        ({"overflow": "odd"}, "overflow is one of drop-head"),
        ({"backoff": "odd"}, "backoff is one of none"),
        ({"backoff": [1, "x"]}, "backoff[1] is a number from 0"),
        ({"dead_letter": ""}, "dead_letter is a string of 1 to 255"),
        ({"groups": 1}, "groups is one of off"),
        ({"content_dedup": 1}, "content_dedup is true or false"),
        ({"odd": 1}, "unknown field"),
        ({"arguments": {str(n): n for n in range(65)}}, "at most 64"),
        ({"arguments": {"x-max-length": "5"}}, "x-max-length"),
    ],
)
def test_settings_that_make_no_sense_are_refused(world: RestWorld, body: Any, text: str) -> None:
    refused = world.call("PUT /queues/q", body)
    assert (refused.status, world.call("GET /queues/q").status) == (400, 404)
    assert text in refused.json["detail"]


def test_reserved_names_are_refused(world: RestWorld) -> None:
    assert world.call("PUT /queues/amq.mine").status == 403
    assert world.call(f"PUT /queues/{'q' * 256}").status == 400


def test_a_message_goes_through_an_exchange(world: RestWorld, orders: leveret.Queue) -> None:
    made = world.call("PUT /exchanges/events", {"type": "topic"})
    assert (made.status, made.json["type"]) == (201, "topic")
    assert world.call("PUT /exchanges/events", {"type": "topic"}).status == 200
    assert world.call("PUT /exchanges/events", {"type": "fanout"}).status == 409
    assert "events" in [row["name"] for row in world.ok("GET /exchanges")["exchanges"]]
    binding = {"destination": "orders", "routing_key": "order.*"}
    assert world.call("POST /exchanges/events/bindings", binding).status == 204
    assert world.ok("GET /exchanges/events/bindings")["bindings"] == [
        {**binding, "source": "events", "destination_type": "queue", "arguments": {}}
    ]
    publish = "POST /exchanges/events/messages"
    sent = world.call(publish, {"payload": {"n": 1}, "routing_key": "order.new"}, Idempotency_Key="k")
    assert (sent.status, sent.json["routed"]) == (201, True)
    again = world.ok(publish, {"payload": {"n": 1}, "routing_key": "order.new"}, Idempotency_Key="k")
    assert again["message_id"] == sent.json["message_id"]
    taken = world.take("orders")
    assert (taken["exchange"], taken["routing_key"], taken["payload"]) == ("events", "order.new", {"n": 1})
    nowhere = world.call(publish, {"payload": 1, "routing_key": "other"})
    assert (nowhere.status, nowhere.json) == (200, {"message_id": None, "routed": False})
    assert world.call("DELETE /exchanges/events/bindings", binding).status == 204
    assert world.ok("GET /exchanges/events/bindings")["total"] == 0
    assert world.call("DELETE /exchanges/events").status == 204
    assert world.call("GET /exchanges/events").status == 404
    assert world.call("DELETE /exchanges/events").status == 404


def test_exchanges_bind_to_exchanges_and_internal_ones_are_not_published_to(world: RestWorld) -> None:
    world.ok("PUT /exchanges/inner", {"internal": True, "type": "fanout"})
    world.ok("PUT /exchanges/outer", {"type": "fanout"})
    binding = {"destination": "inner", "destination_type": "exchange"}
    assert world.call("POST /exchanges/outer/bindings", binding).status == 204
    assert world.call("POST /exchanges/inner/messages", {"payload": 1}).status == 403
    assert world.call("POST /exchanges/none/messages", {"payload": 1}).status == 404
    assert world.call("PUT /exchanges/odd", {"type": "odd"}).status == 409


def test_a_queue_of_one_connection_is_not_for_others(world: RestWorld) -> None:
    with world.broker.runtime as core:
        core.declare_queue("/", "mine", {}, owner=object())
    assert world.call("POST /queues/mine/messages", {"payload": 1}).status == 409
    assert world.ok("GET /queues")["queues"] == []


def test_a_queue_has_a_name_for_people_that_changes_and_the_time_of_its_declaration(world: RestWorld) -> None:
    made = world.ok("PUT /queues/orders", {"display_name": "Orders"})
    assert (made["display_name"], made["created_at"][-1]) == ("Orders", "Z")
    changed = world.ok("PATCH /queues/orders", {"display_name": "Orders of Europe"})
    assert (changed["display_name"], changed["created_at"]) == ("Orders of Europe", made["created_at"])
    (row,) = world.ok("GET /queues")["queues"]
    assert (row["display_name"], row["created_at"]) == ("Orders of Europe", made["created_at"])
    assert world.ok("PATCH /queues/orders", {"display_name": None})["display_name"] is None
    assert world.call("PATCH /queues/orders", {"display_name": "a\nb"}).status == 400
