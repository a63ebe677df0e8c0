"""Durable sends (fdatasync before each returns) beside a bare write + fdatasync loop of the same bytes."""

import os
import tempfile
import threading
from pathlib import Path

import leveret
from bench.measure import Span, report, timed

BATCH = 1_000
BATCHES = 300
BODY = b"x" * 200
THREADS = 64
SENDS_PER_THREAD = 100


def batches(directory: Path) -> tuple[Span, int]:
    """Send batches; give the time and the bytes that the log grew by."""
    bodies = [BODY] * BATCH
    with leveret.open(directory) as broker:
        queue = broker.queue("durable")
        before = log_bytes(directory)
        with timed() as span:
            for _ in range(BATCHES):
                queue.send_many(bodies)
        return span, log_bytes(directory) - before


def log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("seg-*.log"))


def bare(directory: Path, size: int) -> Span:
    """Write as many bytes in as many pieces, each synced."""
    piece = os.urandom(size // BATCHES)
    fd = os.open(directory / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with timed() as span:
        for _ in range(BATCHES):
            os.write(fd, piece)
            os.fdatasync(fd)
    os.close(fd)
    return span


def singles(directory: Path) -> tuple[Span, int]:
    """Send single messages from many threads; give the time and the number of syncs."""
    with leveret.open(directory) as broker:
        queue = broker.queue("singles")
        before = syncs_of(broker)

        def send() -> None:
            for _ in range(SENDS_PER_THREAD):
                queue.send(BODY)

        threads = [threading.Thread(target=send) for _ in range(THREADS)]
        with timed() as span:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return span, syncs_of(broker) - before


def syncs_of(broker: leveret.Broker) -> int:
    journal = broker.stats().journal
    assert journal is not None
    return journal.syncs


def main() -> None:
    count = BATCH * BATCHES
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        directory = Path(name)
        span, size = batches(directory / "batches")
        reference = bare(directory, size)
        report(
            "durable_batches",
            batch=BATCH,
            body_bytes=len(BODY),
            messages_per_s=span.rate(count),
            cpu_us_per_message=span.cpu_us(count),
            bare_messages_per_s=reference.rate(count),
            share_of_bare=round(reference.seconds / span.seconds, 2),
            goal_share=0.5,
        )
        span, syncs = singles(directory / "singles")
        sends = THREADS * SENDS_PER_THREAD
        report(
            "durable_singles",
            threads=THREADS,
            messages_per_s=span.rate(sends),
            cpu_us_per_message=span.cpu_us(sends),
            messages_per_sync=round(sends / syncs, 1),
        )


if __name__ == "__main__":
    main()
