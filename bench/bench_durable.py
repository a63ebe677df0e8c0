"""Durable sends (fdatasync before each returns) beside a bare write + fdatasync loop of the same bytes.

Both take turns, because the speed of a disk changes from second to second.
"""

import os
import statistics
import tempfile
import threading
from pathlib import Path

import leveret
from bench.measure import Span, report, synced_writes, timed

BATCH = 1_000
BATCHES = 60
ROUNDS = 7
BODY = b"x" * 200
THREADS = 64
SENDS_PER_THREAD = 100


def batches(directory: Path) -> list[tuple[Span, Span]]:
    """The times of sending batches, each with that of writing as many bytes in as many synced pieces."""
    bodies = [BODY] * BATCH
    rounds = []
    with leveret.open(directory) as broker:
        queue = broker.queue("durable")
        queue.send_many(bodies)
        for _ in range(ROUNDS):
            before = log_bytes(directory)
            with timed() as span:
                for _ in range(BATCHES):
                    queue.send_many(bodies)
            piece_bytes = (log_bytes(directory) - before) // BATCHES
            rounds.append((span, synced_writes(directory / "bare", piece_bytes, BATCHES)))
    return rounds


def log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("seg-*.log"))


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
        rounds = batches(directory / "batches")
        report(
            "durable_batches",
            batch=BATCH,
            body_bytes=len(BODY),
            rounds=ROUNDS,
            messages_per_s=statistics.median(span.rate(count) for span, _ in rounds),
            cpu_us_per_message=statistics.median(span.cpu_us(count) for span, _ in rounds),
            bare_messages_per_s=statistics.median(reference.rate(count) for _, reference in rounds),
            bare_cpu_us_per_message=statistics.median(reference.cpu_us(count) for _, reference in rounds),
            share_of_bare=round(statistics.median(reference.seconds / span.seconds for span, reference in rounds), 2),
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
