"""A broker with a known history, and reading tables without Spark."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql.types import StructType

import leveret
from leveret.spark.source import LeveretSource
from tests.waiting import PATIENCE_S

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
TRUTH = (
    "vhost", "queue", "seq", "enqueued_at", "first_delivered_at", "settled_at", "outcome", "deliveries", "returns",
    "waiting_ms", "processing_ms", "bytes", "consumer",
)  # fmt: skip


def at(seconds: float) -> datetime:
    """A time of a test."""
    return START + timedelta(seconds=seconds)


def reader_of(path: Path, **options: str) -> Any:
    """The reader of a directory, as Spark would make it."""
    return LeveretSource({"path": str(path), **options}).reader(StructType())


def rows_of(path: Path, **options: str) -> list[dict[str, Any]]:
    """All rows of a table, read in this process."""
    reader = reader_of(path, **options)
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def small_history(path: Path, **options: Any) -> None:
    """Five orders: 1 acked, 2 given back once and acked, 3 rejected, 4 purged, 5 open; one invoice, open."""
    with leveret.open(path, sync="never", **options) as broker:
        orders = broker.queue("orders")
        for number in range(1, 5):
            orders.send(f"order {number}".encode(), headers={"number": number})
        orders.receive()[0].ack()
        orders.receive()[0].nack(delay=0)
        orders.receive()[0].ack()
        orders.receive()[0].reject()
        orders.purge()
        orders.send(b"order 5")
        broker.queue("invoices").send(b"invoice")


def timed_history(path: Path) -> list[tuple[Any, ...]]:
    """A history in which every time is known; gives its lives, with the columns TRUTH."""
    clock = leveret.ManualClock(int(START.timestamp() * 1000))
    with leveret.open(path, sync="never", clock=clock) as broker:
        orders, invoices = broker.queue("orders"), broker.queue("invoices")
        orders.send_many([b"order 1", b"order 2"])
        clock.advance(1)
        (message,) = orders.receive()
        clock.advance(2)
        message.ack()  # 3 s
        (message,) = orders.receive()
        clock.advance(1)
        message.nack(delay=10)
        clock.advance(10)
        (message,) = orders.receive()  # 14 s
        clock.advance(1)
        message.ack()
        orders.send(b"order 3", delay=5)
        clock.advance(7)
        orders.receive()[0].reject()  # 22 s
        orders.send_many([b"order 4", b"order 5"])
        (message,) = orders.receive()
        clock.advance(1)
        orders.purge()  # 23 s; what is leased stays
        clock.advance(1)
        message.ack()
        exchange = broker.exchange("all", "fanout")
        exchange.bind(orders)
        exchange.bind(invoices)
        exchange.publish("", b"both")
        push(invoices, "pushed")
    return [
        ("/", "orders", 1, at(0), at(1), at(3), "acked", 1, 0, 1000, 2000, 7, None),
        ("/", "orders", 2, at(0), at(3), at(15), "acked", 2, 1, 3000, 2000, 7, None),
        ("/", "orders", 3, at(15), at(22), at(22), "rejected", 1, 0, 2000, 0, 7, None),
        ("/", "orders", 4, at(22), at(22), at(24), "acked", 1, 0, 0, 2000, 7, None),
        ("/", "orders", 5, at(22), None, at(23), "purged", 0, 0, None, None, 7, None),
        ("/", "orders", 6, at(24), None, None, "open", 0, 0, None, None, 4, None),
        ("/", "invoices", 6, at(24), at(24), at(24), "acked", 1, 0, 0, 0, 4, "pushed"),
    ]


@dataclass
class Life:
    """What is known of a message of a random history."""

    queue: str
    seq: int
    enqueued_ms: int
    bytes: int
    first_delivered_ms: int | None = None
    taken_ms: int | None = None
    settled_ms: int | None = None
    outcome: str = "open"
    deliveries: int = 0
    returns: int = 0
    held_ms: int = 0

    def take(self, now_ms: int) -> None:
        """It is delivered."""
        self.first_delivered_ms = now_ms if self.first_delivered_ms is None else self.first_delivered_ms
        self.taken_ms, self.deliveries = now_ms, self.deliveries + 1

    def end(self, now_ms: int, outcome: str) -> None:
        """It leaves its consumer: for good, or back into the queue."""
        if self.taken_ms is not None:
            self.held_ms, self.taken_ms = self.held_ms + now_ms - self.taken_ms, None
        if outcome == "returned":
            self.returns += 1
        else:
            self.settled_ms, self.outcome = now_ms, outcome

    def row(self) -> tuple[Any, ...]:
        """Its columns TRUTH."""
        first, settled = self.first_delivered_ms, self.settled_ms
        ended = self.returns or (self.outcome not in ("open", "purged"))
        return (
            "/", self.queue, self.seq, at(self.enqueued_ms / 1000), None if first is None else at(first / 1000),
            None if settled is None else at(settled / 1000), self.outcome, self.deliveries, self.returns,
            None if first is None else first - self.enqueued_ms, self.held_ms if ended else None, self.bytes, None,
        )  # fmt: skip


def random_history(path: Path, seed: int, steps: int = 400) -> list[tuple[Any, ...]]:
    """Whatever comes to three queues in any order; gives the lives, with the columns TRUTH."""
    rng, lives = Random(seed), dict[int, Life]()
    clock = leveret.ManualClock(int(START.timestamp() * 1000))
    with leveret.open(path, sync="never", clock=clock) as broker:
        queues = {name: broker.queue(name, max_deliveries=1000) for name in ("orders", "invoices", "mails")}
        held: list[tuple[Life, leveret.Message]] = []
        now_ms = 0
        for _ in range(steps):
            step_ms = rng.randrange(50)  # so few that no lease ends by itself
            clock.advance(step_ms / 1000)
            now_ms += step_ms
            name = rng.choice(list(queues))
            what = rng.choices(("send", "receive", "end", "purge"), (4, 3, 4, 0.1))[0]
            if what == "send":
                body = str(len(lives) + 1).encode()
                queues[name].send(body)
                lives[len(lives) + 1] = Life(name, len(lives) + 1, now_ms, len(body))
            elif what == "receive":
                for message in queues[name].receive(rng.randrange(1, 4)):
                    held.append((lives[int(bytes(message.body))], message))
                    held[-1][0].take(now_ms)
            elif what == "purge":
                queues[name].purge()
                for life in lives.values():
                    if life.queue == name and life.outcome == "open" and life.taken_ms is None:
                        life.end(now_ms, "purged")
            elif held:
                life, message = held.pop(rng.randrange(len(held)))
                outcome = rng.choice(("acked", "acked", "rejected", "returned"))
                give_back = partial(message.nack, delay=0)
                verbs: dict[str, Callable[[], None]] = {"acked": message.ack, "rejected": message.reject}
                verbs.get(outcome, give_back)()
                life.end(now_ms, outcome)
    return [life.row() for life in lives.values()]


def push(queue: leveret.Queue, tag: str) -> None:
    """Let a consumer have the next message of a queue."""
    done = threading.Event()

    def work(message: leveret.Message) -> None:
        message.ack()
        done.set()

    subscription = queue.consume(work, tag=tag)
    assert done.wait(PATIENCE_S)
    subscription.cancel()
