"""A broker with a known history, and reading tables without Spark."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import leveret
from leveret.pipeline.source import LeveretSource, SegmentsReader

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAIT_S = 10.0
TRUTH = (
    "vhost", "queue", "seq", "enqueued_at", "first_delivered_at", "settled_at", "outcome", "deliveries", "returns",
    "waiting_ms", "processing_ms", "bytes", "consumer",
)  # fmt: skip


def at(seconds: float) -> datetime:
    """A time of a test."""
    return START + timedelta(seconds=seconds)


def reader_of(path: Path, **options: str) -> SegmentsReader:
    """The reader of a directory, as Spark would make it."""
    reader = LeveretSource({"path": str(path), **options}).reader(None)  # type: ignore[arg-type]
    assert isinstance(reader, SegmentsReader)
    return reader


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


def push(queue: leveret.Queue, tag: str) -> None:
    """Let a consumer have the next message of a queue."""
    done = threading.Event()

    def work(message: leveret.Message) -> None:
        message.ack()
        done.set()

    subscription = queue.consume(work, tag=tag)
    assert done.wait(WAIT_S)
    subscription.cancel()
