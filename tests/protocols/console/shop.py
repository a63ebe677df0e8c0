"""A shop at work, for pictures: services that publish, consume and fail, streams with groups, messages for later.

Everything comes from the protocols that users have; nothing is made up on the page.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

import pika
from pika.adapters.blocking_connection import BlockingChannel

import leveret
from leveret.server.control import connect
from tests.observability.alerting.sinks import WebSink
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

TURN_S = 0.05
WAVE_S = 90
RATE = 8  # messages of a turn, in the middle
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
DEAD = {"x-dead-letter-exchange": "dead"}
QUEUES: dict[str, dict[str, object]] = {
    "orders": {"x-max-priority": 10, **DEAD},
    "payments": {"x-queue-type": "quorum", "x-delivery-limit": 3, **DEAD},
    "shipping": {**DEAD},
    "mail": {**DEAD},
    "invoices": {},
    "thumbnails": {"x-max-length": 60, **DEAD},
    "reminders": {"x-message-ttl": 4_000, **DEAD},
    "refunds": {**DEAD},
    "search.index": {"x-single-active-consumer": True},
    "orders.dead": {},
    "mail.dead": {},
    "unrouted": {},
}
EXCHANGES: dict[str, dict[str, object]] = {
    "shop": {"type": "topic", "arguments": {"alternate-exchange": "lost"}},
    "tenants": {"type": "headers"},
    "dead": {"type": "topic"},
    "lost": {"type": "fanout"},
    "later": {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}},
}
BINDINGS = (
    ("shop", "q", "orders", "order.#"),
    ("shop", "q", "payments", "order.paid"),
    ("shop", "q", "shipping", "order.paid"),
    ("shop", "q", "mail", "*.mail"),
    ("shop", "q", "thumbnails", "image.*"),
    ("shop", "q", "reminders", "cart.left"),
    ("shop", "q", "search.index", "#"),
    ("shop", "e", "tenants", "invoice.#"),
    ("dead", "q", "mail.dead", "*.mail"),
    ("dead", "q", "orders.dead", "order.#"),
    ("dead", "q", "orders.dead", "image.*"),
    ("dead", "q", "orders.dead", "cart.*"),
    ("lost", "q", "unrouted", ""),
    ("later", "q", "refunds", "refund"),
)
OFTEN = ("order.new", "order.paid", "welcome.mail", "invoice.new", "price.seen", "order.new") * 6
KEYS = ("image.new", "cart.left", *OFTEN)


def define(api: Api) -> None:
    """Users, virtual hosts, queues, exchanges and policies."""
    for name, tags in (("ada", "administrator"), ("grace", "monitoring,policymaker"), ("web", ""), ("warehouse", "")):
        api.put(f"/users/{name}", {"password": "a long one", "tags": tags})
        api.put(f"/permissions/%2F/{name}", EVERYTHING)
    api.put("/permissions/%2F/web", {"configure": "^$", "write": "^(shop|later)$", "read": "^$"})
    api.put("/topic-permissions/%2F/web", {"exchange": "shop", "write": "^(order|cart|image)\\.", "read": "^$"})
    api.put("/user-limits/web/max-connections", {"value": 50})
    api.put("/vhosts/staging", {"description": "the next release", "tags": "test", "default_queue_type": "quorum"})
    api.put("/vhost-limits/staging/max-queues", {"value": 200})
    api.put("/permissions/staging/grace", EVERYTHING)
    api.put("/queues/staging/orders", {"durable": True})
    for name, exchange in EXCHANGES.items():
        api.put(f"/exchanges/%2F/{name}", {"durable": True, **exchange})
    for name, arguments in QUEUES.items():
        api.put(f"/queues/%2F/{name}", {"durable": True, "arguments": arguments})
    for source, kind, destination, key in BINDINGS:
        api.post(f"/bindings/%2F/e/{source}/{kind}/{destination}", {"routing_key": key})
    tenant = {"routing_key": "", "arguments": {"x-match": "all", "tenant": "t1"}}
    api.post("/bindings/%2F/e/tenants/q/invoices", tenant)
    bounded = {"pattern": "^(orders|mail)$", "definition": {"max-length": 100_000}, "apply-to": "queues", "priority": 1}
    api.put("/policies/%2F/bounded", bounded)
    kept = {"pattern": "dead$", "definition": {"message-ttl": 604_800_000}, "apply-to": "queues", "priority": 5}
    api.put("/policies/%2F/week", kept)
    cap = {"pattern": ".*", "definition": {"max-length-bytes": 10 << 30}, "apply-to": "queues", "priority": 0}
    api.put("/operator-policies/%2F/cap", cap)


def order(number: int) -> bytes:
    """A message that reads like one."""
    lines = [{"sku": f"A-{number % 40}", "count": number % 3 + 1}]
    return json.dumps({"order": 10_000 + number, "customer": f"c-{number % 70}", "lines": lines}).encode()


def publishing(channel: BlockingChannel) -> Callable[[int], None]:
    """What the web site does in a turn: more and less, in waves."""
    numbers = count()

    def turn(turns: int) -> None:
        for _ in range(round(RATE * (1.3 + math.sin(turns * TURN_S * 2 * math.pi / WAVE_S)))):
            number = next(numbers)
            properties = pika.BasicProperties(
                content_type="application/json",
                delivery_mode=2,
                priority=number % 5,
                message_id=f"web-{number}",
                headers={"tenant": f"t{number % 3}", "release": "2026.11"},
            )
            channel.basic_publish("shop", KEYS[number % len(KEYS)], order(number), properties)

    return turn


def consuming(
    queue: str, tag: str, prefetch: int, fails: int, requeue: bool = False, takes_s: float = 0
) -> Callable[[BlockingChannel], None]:
    """A service that cannot handle one of so many messages, however often it gets it."""

    def start(channel: BlockingChannel) -> None:
        def handle(
            channel: BlockingChannel, got: pika.spec.Basic.Deliver, properties: pika.BasicProperties, _: bytes
        ) -> None:
            time.sleep(takes_s)
            number = int((properties.message_id or "web-1").removeprefix("web-"))
            if fails and number % fails == 0:
                channel.basic_nack(got.delivery_tag, requeue=requeue)
            else:
                channel.basic_ack(got.delivery_tag)

        channel.basic_qos(prefetch_count=prefetch)
        channel.basic_consume(queue, handle, consumer_tag=tag)

    return start


def holding(queue: str, tag: str, prefetch: int) -> Callable[[BlockingChannel], None]:
    """A service that thinks about what it has for very long."""

    def start(channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=prefetch)
        channel.basic_consume(queue, lambda *_: None, consumer_tag=tag)

    return start


SERVICES: dict[str, tuple[Callable[[BlockingChannel], None], ...]] = {
    "warehouse": (consuming("shipping", "packer", 20, 33), holding("shipping", "quality check", 25)),
    "cashier": (consuming("payments", "cashier", 10, 35, True),),
    "mailer": (consuming("mail", "mailer", 50, 25), consuming("invoices", "printer", 10, 0)),
    "orders": (
        consuming("orders", "orders-1", 5, 121, takes_s=0.012),
        consuming("orders", "orders-2", 5, 91, takes_s=0.012),
    ),
    "search": (consuming("search.index", "indexer", 100, 0),),
}


class Service(threading.Thread):
    """A connection of its own that works until it is told to stop."""

    def __init__(self, name: str, url: str, starts: tuple[Callable[[BlockingChannel], None], ...]) -> None:
        """Not at work yet; one without something to consume publishes."""
        super().__init__(name=name)
        self._url = url
        self._starts = starts
        self._stop_wanted = threading.Event()
        self.ready = threading.Event()

    def run(self) -> None:
        """Work."""
        parameters = pika.URLParameters(f"{self._url}?heartbeat=0")
        parameters.client_properties = {"connection_name": self.name, "product": "shop", "version": "2026.11"}
        with pika.BlockingConnection(parameters) as connection:
            for start in self._starts:
                start(connection.channel())
            turn = publishing(connection.channel()) if not self._starts else None
            self.ready.set()
            for turns in count():
                if self._stop_wanted.is_set():
                    return
                if turn is not None:
                    turn(turns)
                connection.process_data_events(0 if turn else TURN_S)
                self._stop_wanted.wait(TURN_S if turn else 0)

    def stop(self) -> None:
        """Stop working."""
        self._stop_wanted.set()
        self.join()


def rehearse(server: ServerProcess) -> None:
    """Messages in another virtual host."""
    with leveret.connect(server.http_url, vhost="staging") as broker:
        broker.queue("orders", create=False).send_many([{"order": number} for number in range(120)])


def schedule(broker: leveret.RemoteBroker) -> None:
    """Messages that are due later, in two queues."""
    for number in range(6):
        broker.queue("refunds", create=False).send({"refund": 500 + number}, delay=900 * (number + 1))
    for number in range(3):
        broker.queue("mail", create=False).send({"newsletter": number}, delay=86_400 * (number + 1))


def streams(broker: leveret.RemoteBroker, running: ExitStack) -> None:
    """Two streams, one of them with a group that keeps up and one that does not."""
    clicks = broker.stream("clicks", partitions=4, max_age=604_800)
    broker.stream("prices", partitions=1).send_many([{"sku": f"A-{number}", "price": number} for number in range(300)])
    clicks.send_many([{"page": f"/item/{number}", "user": number % 97} for number in range(4_000)])
    for name, rounds in (("billing", 1), ("analytics", 8)):
        consumer = running.enter_context(clicks.group(name).consumer(f"{name}-1", session=3_600))
        for _ in range(rounds):
            consumer.poll(600, wait=0.2)
        consumer.commit()


def watch(api: Api, sink: WebSink) -> None:
    """Somebody who is told of alerts, and some that he does not want to hear of."""
    api.put("/alerts/receivers/on-call", {"kind": "webhook", "url": sink.url, "severity_min": "warning"})
    why = {"why": "the new image service comes on Monday", "until_ms": int((time.time() + 36_000) * 1000)}
    api.post("/alerts/silences", {"rule": "*", "vhost": "/", "queue": "thumbnails", **why})
    slow = {"figure": "waiting_max", "limit": 20, "severity": "info", "queue": "reminders", "says": "carts are left"}
    api.put("/alerts/rules/left_carts", slow)


def credentials(server: ServerProcess) -> None:
    """Tokens and access keys of programs."""
    with connect(str(server.data)) as operator:
        operator.call("tokens.add", user="web", scopes=["write:shop", "write:later"], label="web site", days=90)
        operator.call("tokens.add", user="grace", scopes=["manage", "read:*"], label="dashboards")
        operator.call("keys.add", user="warehouse", id="AKIAWAREHOUSE2026", secret="not a good one".replace(" ", "-"))


@contextmanager
def shop(server: ServerProcess) -> Iterator[None]:
    """Keep a shop at work on a server."""
    api = Api(server.ports["http"])
    define(api)
    credentials(server)
    rehearse(server)
    api.post("/queues/%2F/refunds/actions", {"action": "pause"})
    services = [Service("web", server.url, ()), *(Service(name, server.url, each) for name, each in SERVICES.items())]
    with ExitStack() as running:
        broker = running.enter_context(server.client())
        watch(api, running.enter_context(WebSink()))
        schedule(broker)
        streams(broker, running)
        for service in services:
            service.start()
            running.callback(service.stop)
        for service in services:
            assert service.ready.wait(PATIENCE_S), f"{service.name} did not start"
        yield
