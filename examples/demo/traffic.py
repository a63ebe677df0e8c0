"""Traffic of a small shop over AMQP: orders with priorities, e-mails that bounce, payments that time out, slow exports.

Everything is drawn from one seed, so that two demos differ only in their times.
"""

import threading
import time
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import pika
from pika.adapters.blocking_connection import BlockingChannel

DEAD = "dead-letters"
BATCH_S = 0.1
TENANTS = ("acorn", "birch", "cedar", "dogwood")


class Kind(NamedTuple):
    """A queue, how much is sent to it, and how its workers do."""

    per_s: int
    workers: int
    work_s: float
    prefetch: int = 20
    given_back: float = 0.0
    rejected: float = 0.0
    arguments: Mapping[str, Any] = MappingProxyType({})


DIES = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
KINDS = {
    "orders": Kind(120, 2, 0.018, 2, rejected=0.01, arguments={"x-max-priority": 3, **DIES}),
    "emails": Kind(60, 2, 0.01, given_back=0.12, arguments={"x-queue-type": "quorum", "x-delivery-limit": 2, **DIES}),
    "payments": Kind(25, 1, 0.035, 1, given_back=0.02, arguments={"x-message-ttl": 2500, **DIES}),
    "thumbnails": Kind(150, 2, 0.002, rejected=0.003, arguments=DIES),
    "exports": Kind(6, 1, 0.2, 1, rejected=0.05, arguments=DIES),
}


def run(url: str, seconds: float, seed: int = 1) -> None:
    """Publish and work for so long; then let workers go on for a moment, and stop them."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(DEAD, durable=True)
        for name, kind in KINDS.items():
            channel.queue_declare(name, durable=True, arguments=dict(kind.arguments))
    ended = threading.Event()
    threads = [
        threading.Thread(target=work, args=(url, name, f"{name}-{number}", Random(f"{seed}{name}{number}"), ended))
        for name, kind in KINDS.items()
        for number in range(1, kind.workers + 1)
    ]
    for thread in threads:
        thread.start()
    try:
        publish(url, seconds, Random(seed))
        time.sleep(min(2.0, seconds / 10))
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def publish(url: str, seconds: float, rng: Random) -> None:
    """Send to all queues, with a rush of orders in the middle."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        started = time.monotonic()
        while (gone := time.monotonic() - started) < seconds:
            for name, kind in KINDS.items():
                rush = 2.5 if name in ("orders", "payments") and 0.4 < gone / seconds < 0.6 else 1.0
                for _ in range(round(kind.per_s * BATCH_S * rush)):
                    send(channel, name, rng)
            connection.process_data_events(time_limit=BATCH_S)


def send(channel: BlockingChannel, name: str, rng: Random) -> None:
    """One message, of some tenant and some priority."""
    tenant = TENANTS[min(int(rng.expovariate(1.2)), len(TENANTS) - 1)]
    properties = pika.BasicProperties(
        delivery_mode=2, priority=rng.choice((0, 0, 0, 1, 1, 3)), headers={"x-group-id": tenant}
    )
    channel.basic_publish("", name, rng.randbytes(rng.randrange(50, 2000)), properties)


def work(url: str, queue: str, tag: str, rng: Random, ended: threading.Event) -> None:
    """Consume a queue until the end: most messages are done, some are given back, some are refused."""
    kind = KINDS[queue]
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=kind.prefetch)
        channel.basic_consume(queue, _worker(kind, rng), consumer_tag=tag)
        while not ended.is_set():
            connection.process_data_events(time_limit=BATCH_S)


def _worker(kind: Kind, rng: Random) -> Callable[..., None]:
    """What a worker does with a message."""

    def done(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        time.sleep(rng.expovariate(1 / kind.work_s))
        luck = rng.random()
        if luck < kind.rejected:
            channel.basic_reject(method.delivery_tag, requeue=False)
        elif luck < kind.rejected + kind.given_back:
            channel.basic_nack(method.delivery_tag, requeue=True)
        else:
            channel.basic_ack(method.delivery_tag)

    return done
