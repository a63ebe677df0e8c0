"""Streams: appends that are durable in batches beside a bare write + fdatasync loop of the same bytes, and reading.

Appends and the bare loop take turns, because the speed of a disk changes from second to second. Over AMQP a stream is
published to beside a queue, and read by one consumer.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

from bench.amqp.brokers import SERVE, start_leveret
from bench.amqp.load import PROGRAM, Options, run_load
from bench.measure import Span, report, rss_bytes, synced_writes, timed
from leveret.journal.disk import Disk
from leveret.stream.log import Log
from leveret.stream.options import StreamOptions

QUICK = bool(os.environ.get("QUICK"))
BATCH = 20_000
BATCHES = 10 if QUICK else 25
ROUNDS = 2 if QUICK else 6
AMQP_COUNT = 300_000 if QUICK else 2_000_000
ROUTE = b"\0\6events"
HEADER = b"\0<\0\0\0\0\0\0\0\0\0d\0\0"
CONTENT = HEADER + b"x" * 100


def append(log: Log, bare: Path) -> tuple[Span, Span]:
    """The time of appending batches, each made durable, and that of writing as many bytes in as many synced pieces."""
    before = log.size_bytes
    with timed() as span:
        for batch in range(BATCHES):
            for _ in range(BATCH):
                log.append(batch, ROUTE, CONTENT, len(HEADER))
            log.commit(batch)
    return span, synced_writes(bare, (log.size_bytes - before) // BATCHES, BATCHES)


def read(log: Log) -> tuple[Span, int]:
    """The time of reading everything, and how many records there were."""
    count = 0
    reader = log.reader(0)
    with timed() as span:
        while not reader.at_end:
            count += len(reader.read())
    reader.close()
    return span, count


def over_amqp(directory: Path) -> None:
    """A server: publishing with confirms to a queue and to a stream, reading the stream, and both at once."""
    body: Options = {"body": 100, "window": 10_000}
    stream: Options = {"queue": "stream", "argument": "x-queue-type=stream"}
    first: Options = {"consumer-argument": "x-stream-offset=first", "prefetch": 10_000}
    cases: dict[str, tuple[Options, int]] = {
        "queue_publish_amqp": ({"mode": "publish", "queue": "queue", "messages": AMQP_COUNT, **body}, 0),
        "stream_publish_amqp": ({"mode": "publish", "messages": AMQP_COUNT, **stream, **body}, 0),
        "stream_read_amqp": ({"mode": "consume", **stream, **first}, 500_000),
        "stream_through_amqp": (
            {"mode": "both", "messages": AMQP_COUNT, **stream, **body, "queue": "through", "prefetch": 10_000},
            0,
        ),
    }
    with start_leveret(SERVE, directory) as server:
        for name, (options, goal) in cases.items():
            result = run_load(server, options)
            goals = {"goal_messages_per_s": goal} if goal else {}
            report(
                name,
                body_bytes=100,
                messages_per_s=round(result["messages_per_s"]),
                cpu_us_per_message=result.get("broker_cpu_us"),
                rss_bytes=result.get("broker_rss_bytes"),
                **goals,
            )


def main() -> None:
    count = BATCH * BATCHES
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        directory = Path(name)
        log = Log(Disk(directory / "stream"), StreamOptions())
        append(log, directory / "bare")
        memory = rss_bytes()
        rounds = [append(log, directory / "bare") for _ in range(ROUNDS)]
        report(
            "stream_append",
            batch=BATCH,
            body_bytes=100,
            messages_per_s=statistics.median(span.rate(count) for span, _ in rounds),
            cpu_us_per_message=statistics.median(span.cpu_us(count) for span, _ in rounds),
            bare_messages_per_s=statistics.median(bare.rate(count) for _, bare in rounds),
            share_of_bare=round(statistics.median(bare.seconds / span.seconds for span, bare in rounds), 2),
            grown_bytes=rss_bytes() - memory,
            goal_messages_per_s=1_000_000,
        )
        span, records = read(log)
        report(
            "stream_read",
            records=records,
            stream_bytes=log.size_bytes,
            messages_per_s=span.rate(records),
            cpu_us_per_message=span.cpu_us(records),
            grown_bytes=rss_bytes() - memory,
            goal_messages_per_s=500_000,
        )
        log.abandon()
        with timed() as span:
            log = Log(Disk(directory / "stream"), StreamOptions())
        report(
            "stream_open_after_kill",
            stream_bytes=log.size_bytes,
            read_again_bytes=log.recovered.read_again_bytes,
            seconds=round(span.seconds, 3),
        )
        log.close(0)
        if PROGRAM.exists():
            over_amqp(directory)
        else:
            print("the load generator is not built: `make build/amqpload`", file=sys.stderr)


if __name__ == "__main__":
    main()
