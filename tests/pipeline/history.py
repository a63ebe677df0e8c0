"""A broker with a known history, and reading tables without Spark."""

from pathlib import Path
from typing import Any

import leveret
from leveret.pipeline.source import LeveretSource, SegmentsReader


def reader_of(path: Path, **options: str) -> SegmentsReader:
    """The reader of a directory, as Spark would make it."""
    return LeveretSource({"path": str(path), **options}).reader(None)  # type: ignore[arg-type]


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
