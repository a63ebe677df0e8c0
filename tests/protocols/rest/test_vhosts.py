"""Virtual hosts: the same name in two of them is two queues, and permissions are of one."""

from typing import Any

import pytest

import leveret
from tests.protocols.rest.world import RestWorld


@pytest.fixture
def shop(world: RestWorld, orders: leveret.Queue) -> RestWorld:
    """A world with a second virtual host that guest may use."""
    with world.broker.runtime:
        world.access.declare_vhost("shop/eu")
        world.access.set_permission("guest", "shop/eu", ".*", ".*", ".*")
    return world


def test_a_queue_of_another_virtual_host_is_another_queue(shop: RestWorld, orders: leveret.Queue) -> None:
    made = shop.call("PUT /queues/orders?vhost=shop%2Feu", {"dead_letter": "lost"})
    assert made.status == 201
    shop.ok("POST /queues/orders/messages?vhost=shop%2Feu", {"payload": "there"})
    assert shop.ok("POST /queues/orders/dequeue")["messages"] == []
    (message,) = shop.ok("POST /queues/orders/dequeue?vhost=shop%2Feu")["messages"]
    assert message["payload"] == "there"
    receipt = {"receipt_handle": message["receipt_handle"]}
    assert shop.call(f"DELETE /queues/orders/messages/{message['message_id']}", receipt).status == 409
    rejected = shop.call(f"POST /queues/orders/messages/{message['message_id']}/reject?vhost=shop%2Feu", receipt)
    assert rejected.status == 204
    assert shop.ok("GET /queues/orders/stats?vhost=shop%2Feu")["dlq_count"] == 1
    assert [row["name"] for row in shop.ok("GET /queues?vhost=shop%2Feu&limit=9")["queues"]] == ["lost", "orders"]
    assert [row["name"] for row in shop.ok("GET /queues")["queues"]] == ["dlq", "orders"]


def test_exchanges_are_of_one_virtual_host(shop: RestWorld) -> None:
    for path, body in (("PUT /queues/mail", {}), ("PUT /exchanges/news", {"type": "fanout"})):
        assert shop.call(f"{path}?vhost=shop%2Feu", body).status == 201
    assert shop.call("POST /exchanges/news/bindings?vhost=shop%2Feu", {"destination": "mail"}).status == 204
    assert shop.call("POST /exchanges/news/messages?vhost=shop%2Feu", {"payload": 1}).status == 201
    assert shop.call("POST /exchanges/news/messages", {"payload": 1}).status == 404
    assert len(shop.ok("GET /queues/mail/messages?vhost=shop%2Feu")["messages"]) == 1


@pytest.mark.parametrize("vhost", ["shop%2Feu", "nowhere"])
@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("GET /queues", None),
        ("GET /exchanges", None),
        ("POST /queues/orders/dequeue", {}),
        ("POST /queues/orders/messages", {"payload": 1}),
        ("PUT /queues/orders", {}),
    ],
)
def test_whoever_may_not_enter_hears_nothing(shop: RestWorld, vhost: str, line: str, body: Any) -> None:
    token = shop.add_user("ada", ".*", ".*", ".*")
    refused = shop.call(f"{line}?vhost={vhost}", body, token=token)
    assert (refused.status, "access to vhost" in refused.json["detail"]) == (403, True)


def test_limits_are_of_the_virtual_host(shop: RestWorld) -> None:
    with shop.broker.runtime:
        shop.access.set_vhost_limits("shop/eu", {"max-queues": 1})
    assert shop.call("PUT /queues/a?vhost=shop%2Feu", {}).status == 201
    assert shop.call("PUT /queues/b?vhost=shop%2Feu", {}).status == 429
    assert shop.call("PUT /queues/b", {}).status == 201


def test_the_audit_log_names_the_virtual_host(shop: RestWorld) -> None:
    shop.call("PUT /queues/a?vhost=shop%2Feu", {})
    assert shop.audit.recent(1)[0]["vhost"] == "shop/eu"
