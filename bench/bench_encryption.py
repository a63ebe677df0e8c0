"""What encryption at rest costs: CPU time of sends, of reading a backlog back and of a stream, without and with a key.

Nothing is synced, so that the figures are those of the work and not of the disk.
"""

import os
import secrets
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leveret
from bench.measure import Span, report, timed

QUICK = bool(os.environ.get("QUICK"))
BATCH = 500
BATCHES = 20 if QUICK else 100
ROUNDS = 3 if QUICK else 7
BODY = b"x" * 500
COUNT = BATCH * BATCHES


def sends(broker: leveret.Broker) -> Span:
    queue = broker.queue("sends")
    with timed() as span:
        for _ in range(BATCHES):
            queue.send_many([BODY] * BATCH)
        broker.runtime.flush()
    return span


def reads(broker: leveret.Broker) -> Span:
    queue = broker.queue("sends")
    with timed() as span:
        while taken := queue.receive(BATCH):
            queue.ack_many(taken)
        broker.runtime.flush()
    return span


def appends(broker: leveret.Broker) -> Span:
    stream = broker.stream("records")
    with timed() as span:
        for _ in range(BATCHES):
            stream.send_many([BODY] * BATCH)
        broker.runtime.flush()
    return span


WORK: dict[str, Callable[[leveret.Broker], Span]] = {"send": sends, "read_back": reads, "stream_append": appends}


def measured(directory: Path, **options: Any) -> dict[str, float]:
    """The CPU time of each kind of work, in microseconds for a message: the median of some rounds."""
    spans: dict[str, list[float]] = {name: [] for name in WORK}
    for number in range(ROUNDS):
        with leveret.open(directory / str(number), sync="never", cache_bytes=1, **options) as broker:
            for name, work in WORK.items():
                spans[name].append(work(broker).cpu_us(COUNT))
    return {f"{name}_cpu_us": round(statistics.median(each), 2) for name, each in spans.items()}


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        keys = Path(name, "keys")
        keys.write_text(secrets.token_hex(32))
        for kind, options in (("plain", {}), ("encrypted", {"encryption_key_file": str(keys)})):
            report(
                f"encryption_{kind}",
                batch=BATCH,
                body_bytes=len(BODY),
                rounds=ROUNDS,
                **measured(Path(name, kind), **options),
            )


if __name__ == "__main__":
    main()
