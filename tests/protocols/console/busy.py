"""A broker at work: queues of several kinds, messages of several shapes, somebody who publishes and consumes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pika

from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

EVERY_S = 0.05
ORDERS = 40
HELD = 3  # messages that a consumer has and does not settle


def define(api: Api) -> None:
    """Users, queues, exchanges, policies."""
    api.put("/users/visitor", {"password": "wonderland", "tags": "management"})
    api.put("/permissions/%2F/visitor", {"configure": "^$", "write": "^$", "read": "^orders$"})
    policy = {"pattern": "^orders", "definition": {"max-length": 100_000}, "priority": 1, "apply-to": "queues"}
    api.put("/policies/%2F/bounded", policy)
    api.put("/exchanges/%2F/shop", {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "lost"}})
    for exchange, type in (("lost", "fanout"), ("tenants", "headers")):
        api.put(f"/exchanges/%2F/{exchange}", {"type": type, "durable": True})
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"}
    api.put("/queues/%2F/orders", {"durable": True, "arguments": {"x-max-priority": 10, **dead}})
    api.put("/queues/%2F/orders.dead", {"durable": True})
    api.put("/queues/%2F/mail", {"durable": True})
    api.put("/queues/%2F/billing.invoices", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    api.put("/queues/%2F/ticks", {"durable": True})
    for source, queue, key in (
        ("shop", "orders", "order.#"),
        ("shop", "mail", "*.mail"),
        ("shop", "mail", "order.paid"),
    ):
        api.post(f"/bindings/%2F/e/{source}/q/{queue}", {"routing_key": key})
    api.post("/bindings/%2F/e/shop/e/tenants", {"routing_key": "invoice.#"})
    matching = {"x-match": "all", "tenant": "t1"}
    api.post("/bindings/%2F/e/tenants/q/billing.invoices", {"routing_key": "", "arguments": matching})
    api.post("/bindings/%2F/e/lost/q/orders.dead", {"routing_key": ""})


def stock(channel: "pika.adapters.blocking_connection.BlockingChannel") -> None:
    """Messages as JSON, text and bytes, some of which have died."""
    for number in range(ORDERS):
        body = {
            "order": number,
            "customer": f"customer-{number % 7}",
            "lines": [{"sku": "A-1", "count": number % 3 + 1}],
        }
        properties = pika.BasicProperties(
            content_type="application/json",
            delivery_mode=2,
            priority=number % 4,
            headers={"tenant": f"t{number % 3}", "attempt": number},
        )
        channel.basic_publish("shop", "order.new", json.dumps(body).encode(), properties)
    channel.basic_publish("", "mail", "Grüße aus dem Bau".encode(), pika.BasicProperties(content_type="text/plain"))
    channel.basic_publish("", "mail", bytes(range(64)), pika.BasicProperties(content_type="application/octet-stream"))
    for _ in range(5):
        method, _, _ = channel.basic_get("orders")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)


class Traffic(threading.Thread):
    """Publishes to ticks and consumes them, until it is told to stop; holds some orders all the while."""

    def __init__(self, url: str) -> None:
        """Not at work yet."""
        super().__init__(name="traffic")
        self._url = url
        self._stop_wanted = threading.Event()
        self.ready = threading.Event()

    def run(self) -> None:
        """Work."""
        parameters = pika.URLParameters(f"{self._url}?heartbeat=0")
        parameters.client_properties = {"connection_name": "warehouse"}
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        stock(channel)
        holder = connection.channel()
        holder.basic_qos(prefetch_count=HELD)
        holder.basic_consume("orders", lambda *_: None, consumer_tag="packer")
        channel.basic_consume("ticks", lambda ch, got, *_: ch.basic_ack(got.delivery_tag), consumer_tag="clock")
        self.ready.set()
        while not self._stop_wanted.is_set():
            channel.basic_publish("", "ticks", b"tick")
            connection.process_data_events(0)
            self._stop_wanted.wait(EVERY_S)
        connection.close()

    def stop(self) -> None:
        """Stop working."""
        self._stop_wanted.set()
        self.join()


@contextmanager
def busy(server: ServerProcess) -> Iterator[None]:
    """Keep a server at work."""
    define(Api(server.ports["http"]))
    traffic = Traffic(server.url)
    traffic.start()
    try:
        assert traffic.ready.wait(PATIENCE_S), "the traffic did not start"
        yield
    finally:
        traffic.stop()
