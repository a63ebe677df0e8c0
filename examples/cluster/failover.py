"""Kill the node that has a queue, while pika publishes to it and consumes from it through other nodes.

    python -m examples.cluster.failover [page]

prints what happens; the page, if one is named, gets it as its transcript `failover`.
"""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika

from examples.cluster.machine import NAMES, running
from tests.cluster.processes import Nodes
from tests.transcripts import transcribe

QUEUE = "orders"
PERIOD_S = 0.02
BEFORE_S, AFTER_S = 3.0, 12.0
PATIENCE_S = 60.0


class Producer(threading.Thread):
    """Publishes numbers, each until it is confirmed."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        """Publish through a connection."""
        super().__init__()
        self._connection = connection
        self.confirmed = 0
        self.ended = threading.Event()

    def run(self) -> None:
        """Go on until somebody ends it."""
        channel = self._connection.channel()
        channel.confirm_delivery()
        while not self.ended.is_set():
            try:
                channel.basic_publish("", QUEUE, str(self.confirmed).encode(), pika.BasicProperties(delivery_mode=2))
            except pika.exceptions.NackError:
                continue
            self.confirmed += 1
            self._connection.sleep(PERIOD_S)


class Consumer:
    """Takes numbers and acknowledges each."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        """Consume through a connection."""
        self.connection = connection
        self.taken: set[int] = set()
        self.again = 0
        self.longest_s = 0.0
        self._last_s = time.monotonic()
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume(QUEUE, self._take)

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.again += int(body) in self.taken
        self.taken.add(int(body))
        channel.basic_ack(method.delivery_tag)
        now_s = time.monotonic()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s


def owner_of_queue(nodes: Nodes, through: str) -> tuple[str, int, int]:
    """The node that has the only queue, its shard, and its epoch."""
    rows = nodes.operate(through, "cluster.status")["shards"]
    return next((row["owner"], row["shard"], row["epoch"]) for row in rows if row["queues"])


def watched(nodes: Nodes, say: Callable[[str], None]) -> bool:
    """Do it; tell whether all that was confirmed was consumed."""
    with nodes.connect(NAMES[0]) as connection:
        connection.channel().queue_declare(QUEUE, durable=True)
    owner, shard, epoch = owner_of_queue(nodes, NAMES[0])
    near, far = (name for name in NAMES if name != owner)
    say(f"queue '{QUEUE}' is in shard {shard}, which node {owner} has at epoch {epoch}")
    say(f"pika consumes through node {near}, and publishes through node {far}, each message until it is confirmed")
    with nodes.connect(near) as consuming, nodes.connect(far) as publishing:
        consumer, producer = Consumer(consuming), Producer(publishing)
        producer.start()

        def look(seconds: float) -> None:
            for _ in range(round(seconds)):
                consuming.process_data_events(0)
                consuming.sleep(1)
                say(f"confirmed {producer.confirmed}, consumed {len(consumer.taken)}")

        look(BEFORE_S)
        say(f"kill -9 {nodes.pid(owner)}, which is node {owner}")
        nodes.kill(owner)
        look(AFTER_S)
        producer.ended.set()
        producer.join()
        deadline = time.monotonic() + PATIENCE_S
        while len(consumer.taken) < producer.confirmed and time.monotonic() < deadline:
            consuming.process_data_events(0.1)
        now, _, epoch = owner_of_queue(nodes, near)
        lost = set(range(producer.confirmed)) - consumer.taken
        say(f"node {now} has shard {shard} at epoch {epoch}; the consumer is on the connection that it had")
        say(f"confirmed {producer.confirmed}, consumed {len(consumer.taken)}, lost {len(lost)}, twice {consumer.again}")
        say(f"longest time without a delivery: {consumer.longest_s:.1f} s")
        return not lost


def main(page: str = "") -> int:
    """Start a cluster, and write down what happens."""
    lines: list[str] = []
    with running() as nodes:
        began_s = time.monotonic()

        def say(text: str) -> None:
            lines.append(f"{time.monotonic() - began_s:5.1f} s  {text}")
            print(lines[-1], flush=True)

        passed = watched(nodes, say)
    if page:
        transcribe("failover", "\n".join(lines), Path(page))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
