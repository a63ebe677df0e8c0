"""A message that one protocol sent is taken by the others, with its properties."""

from contextlib import closing
from pathlib import Path

import pika

import leveret
from leveret.cli.main import main
from tests.server_process import ServerProcess

HEADERS = {"tenant": "a", "n": 7, "flag": True, "nested": {"list": [1, 2, "x"]}}
PROPERTIES = {
    "correlation_id": "c1",
    "reply_to": "answers",
    "message_id": "m1",
    "timestamp": 1_700_000_000,
    "type": "order",
    "app_id": "shop",
    "content_encoding": "identity",
}


def test_client_and_amqp_see_the_same(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, closing(pika.BlockingConnection(pika.URLParameters(server.url))) as amqp:
        channel = amqp.channel()
        channel.confirm_delivery()
        with leveret.connect(f"http://guest:guest@127.0.0.1:{server.ports['http']}") as client:
            orders = client.queue("orders", max_priority=9)
            orders.send({"total": 1.50}, priority=5, headers=HEADERS, properties=PROPERTIES, ttl=60, group="g")
            method, properties, body = channel.basic_get("orders")
            assert (body, properties.content_type) == (b'{"total":1.5}', "application/json")
            assert {name: getattr(properties, name) for name in PROPERTIES} == PROPERTIES
            assert (properties.priority, properties.expiration, properties.delivery_mode) == (5, "60000", 2)
            assert {name: properties.headers[name] for name in HEADERS} == HEADERS
            assert properties.headers["x-group-id"] == "g"
            channel.basic_ack(method.delivery_tag)

            headers = {**HEADERS, "raw": b"\xff"}
            sent = pika.BasicProperties("text/plain", priority=3, headers=headers, expiration="60000", **PROPERTIES)
            channel.basic_publish("", "orders", b"text", sent)
            (message,) = orders.receive(wait=5)
            assert (message.body, message.priority) == ("text", 3)
            assert {name: getattr(message.properties, name) for name in PROPERTIES} == PROPERTIES
            assert message.headers == {**HEADERS, "raw": b"\xff"}
            message.ack()
            assert orders.stats().acked == 2


def test_a_virtual_host_of_amqp_is_one_of_the_client(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        data = ("--data", str(server.data))
        assert main(["vhosts", "add", "shop", *data]) == 0
        assert main(["permissions", "set", "guest", ".*", ".*", ".*", "--vhost", "shop", *data]) == 0
        amqp_url, http_url = server.url.removesuffix("%2F"), f"http://guest:guest@127.0.0.1:{server.ports['http']}"
        with (
            closing(pika.BlockingConnection(pika.URLParameters(f"{amqp_url}shop"))) as amqp,
            leveret.connect(http_url, vhost="shop") as shop,
            leveret.connect(http_url) as other,
        ):
            channel = amqp.channel()
            channel.queue_declare("orders", durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", "orders", b"by amqp")
            orders = shop.queue("orders", create=False)
            (message,) = orders.receive(wait=5)
            assert message.body == b"by amqp"
            message.ack()
            orders.send("by rest")
            assert channel.basic_get("orders", auto_ack=True)[2] == b"by rest"
            assert [each.name for each in shop.queues()] == ["orders"]
            assert other.queues() == []
