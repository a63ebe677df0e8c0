"""Streams on real nodes: what readers see when the owner of one is killed."""

import time
from typing import Any

import pika

from tests.cluster.processes import Nodes
from tests.waiting import PATIENCE_S

NAMES = [f"s{number}" for number in range(4)]


def test_readers_of_streams_go_on_when_a_node_is_killed(nodes: Nodes) -> None:
    nodes.start("a", "b")
    nodes.balance()
    with nodes.connect("a") as connection:
        channel = connection.channel()
        for name in NAMES:
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream", "x-partitions": 2})
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=20)
        taken: dict[str, list[tuple[int, int]]] = {name: [] for name in NAMES}
        bodies: set[bytes] = set()

        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            headers = properties.headers
            taken[method.consumer_tag].append((headers["x-stream-partition"], headers["x-stream-offset"]))
            bodies.add(body)
            channel.basic_ack(method.delivery_tag)

        for name in NAMES:
            channel.basic_consume(name, take, consumer_tag=name, arguments={"x-stream-offset": "first"})
        confirmed: set[bytes] = set()
        publish(channel, b"before", confirmed)
        nodes.kill("b")
        publish(channel, b"after", confirmed)
        deadline = time.monotonic() + PATIENCE_S
        while confirmed - bodies and time.monotonic() < deadline:
            connection.process_data_events(0.1)
        assert confirmed - bodies == set()
        for places in taken.values():
            for partition in range(2):
                offsets = [offset for number, offset in places if number == partition]
                assert offsets == list(range(len(offsets))), "each record once, in its order"


def publish(channel: Any, word: bytes, confirmed: set[bytes]) -> None:
    """Publish to all streams until each has taken its messages; one that may be lost is sent again by its number."""
    for number in range(12):
        for name in NAMES:
            body = b"%s %s %d" % (word, name.encode(), number)
            headers = {"x-producer": f"{name} {word.decode()} {number}", "x-sequence": 1}
            while body not in confirmed:
                try:
                    channel.basic_publish("", name, body, pika.BasicProperties(headers=headers))
                    confirmed.add(body)
                except pika.exceptions.NackError:
                    time.sleep(0.05)
