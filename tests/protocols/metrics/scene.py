"""A broker with something of everything in it, and scrapes of it."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
from prometheus_client.parser import text_string_to_metric_families

from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
Labels = frozenset[tuple[str, str]]


class Scrape:
    """The samples of a scrape."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        samples = [each for family in self.families for each in family.samples]
        self.samples = {(each.name, frozenset(each.labels.items())): each.value for each in samples}

    @property
    def names(self) -> set[str]:
        """The names of all samples."""
        return {name for name, _ in self.samples}

    def value(self, name: str, **labels: str) -> float:
        """One sample."""
        return self.samples[name, frozenset(labels.items())]


def fetch(server: ServerProcess, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    """What is at a path: status, text and headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{server.ports['http']}{path}", headers=named)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


def scrape(server: ServerProcess, path: str = "/metrics") -> Scrape:
    """The samples at a path."""
    status, text, _ = fetch(server, path)
    assert status == 200, text
    return Scrape(text)


@contextmanager
def busy(server: ServerProcess) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    """Publish, consume, reject and hold messages; a channel stays open meanwhile."""
    # Without heartbeats: nobody serves the connection while other tests run.
    connection = pika.BlockingConnection(pika.URLParameters(f"{server.url}?heartbeat=0"))
    channel = connection.channel()
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("orders", durable=True, arguments={"x-max-priority": 5, **dead})
    channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("idle", durable=True)
    for number in range(8):
        channel.basic_publish("", "orders", b"body", pika.BasicProperties(priority=number % 2, delivery_mode=2))
    channel.basic_publish("", "events", b"record")
    channel.basic_publish("", "quorum", b"body")
    channel.confirm_delivery()
    channel.basic_publish("", "nowhere", b"dropped")
    tags = [take(channel, "orders") for _ in range(4)]
    channel.basic_ack(tags[0])
    channel.basic_reject(tags[1], requeue=False)
    channel.basic_nack(tags[2], requeue=True)
    channel.basic_get("idle")
    channel.basic_get("quorum", auto_ack=True)
    channel.basic_consume("idle", lambda *_: None)
    with server.client() as client:
        client.stream("events").group("readers").join("one")
    try:
        yield channel
    finally:
        connection.close()


def take(channel: Any, queue: str) -> int:
    """The delivery tag of the next message."""
    method, _, _ = channel.basic_get(queue)
    assert method is not None
    tag: int = method.delivery_tag
    return tag
