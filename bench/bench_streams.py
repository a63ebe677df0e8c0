"""Streams: appends that are durable in batches beside a bare write + fdatasync loop of the same bytes, and reading.

Appends and the bare loop take turns, because the speed of a disk changes from second to second. Over AMQP a stream and
a queue are published to in turns, and the stream is read by one consumer.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.amqp.brokers import SERVE, start_leveret
from bench.amqp.load import PROGRAM, Options, run_load
from bench.measure import Span, report, rss_bytes, synced_writes, timed
from leveret.storage.disk import Disk
from leveret.storage.options import StreamOptions
from leveret.storage.stream.log import PartitionLog

QUICK = bool(os.environ.get("QUICK"))
BATCH = 20_000
BATCHES = 10 if QUICK else 25
ROUNDS = 2 if QUICK else 6
AMQP_COUNT = 300_000 if QUICK else 3_000_000
TURNS = 1 if QUICK else 3
ROUTE = b"\0\6events"
HEADER = b"\0<\0\0\0\0\0\0\0\0\0d\0\0"
CONTENT = HEADER + b"x" * 100


def append(log: PartitionLog, bare: Path) -> tuple[Span, Span]:
    """The time of appending batches, each made durable, and that of writing as many bytes in as many synced pieces."""
    before = log.size_bytes
    with timed() as span:
        for batch in range(BATCHES):
            for _ in range(BATCH):
                log.append(batch, ROUTE, CONTENT, len(HEADER))
            log.commit(batch)
    return span, synced_writes(bare, (log.size_bytes - before) // BATCHES, BATCHES)


def read(log: PartitionLog) -> tuple[Span, int]:
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
    stream: Options = {"argument": "x-queue-type=stream"}
    publish: Options = {"mode": "publish", "messages": AMQP_COUNT // TURNS, **body}
    first: Options = {"consumer-argument": "x-stream-offset=first", "prefetch": 10_000}
    through: Options = {"messages": AMQP_COUNT, **body, "queue": "through", "prefetch": 10_000}
    with start_leveret(SERVE, directory) as server:
        turns = [
            (
                run_load(server, {**publish, "queue": f"queue {turn}"}),
                run_load(server, {**publish, **stream, "queue": f"stream {turn}"}),
            )
            for turn in range(TURNS)
        ]
        ratio = statistics.median(ours["messages_per_s"] / queue["messages_per_s"] for queue, ours in turns)
        report_load("queue_publish_amqp", [queue for queue, _ in turns])
        report_load("stream_publish_amqp", [ours for _, ours in turns], share_of_queue=round(ratio, 2), goal_share=1)
        read_back = run_load(server, {"mode": "consume", **stream, **first, "queue": "stream 0"})
        report_load("stream_read_amqp", [read_back], goal_messages_per_s=500_000)
        report_load("stream_through_amqp", [run_load(server, {"mode": "both", **stream, **through})])


def report_load(name: str, results: list[dict[str, Any]], **facts: float) -> None:
    """A line about runs of the load generator."""
    report(
        name,
        body_bytes=100,
        messages_per_s=round(statistics.median(each["messages_per_s"] for each in results)),
        cpu_us_per_message=results[-1].get("broker_cpu_us"),
        rss_bytes=results[-1].get("broker_rss_bytes"),
        **facts,
    )


def main() -> None:
    count = BATCH * BATCHES
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        directory = Path(name)
        log = PartitionLog(Disk(directory / "stream"), StreamOptions())
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
            log = PartitionLog(Disk(directory / "stream"), StreamOptions())
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
