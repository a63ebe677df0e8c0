"""Spark on two cores: rows of segments to a count, for events and for messages of 100 bytes."""

import os
import tempfile
from typing import TYPE_CHECKING

import leveret
from bench.measure import report, timed
from leveret.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = bool(os.environ.get("QUICK"))
MESSAGES = 200_000 if QUICK else 4_000_000
BATCH = 1_000
BODY = b"x" * 100
GOAL = 1_000_000
CASES = {
    "events": {"table": "events"},
    "events_pruned": {"table": "events", "columns": "event,queue,at,seq"},
    "messages": {"table": "messages"},
    "messages_pruned": {"table": "messages", "columns": "queue,offset,enqueued_at,value"},
}


def fill(directory: str) -> None:
    """Publish messages, without waiting for the disk."""
    with leveret.open(directory, sync="never") as broker:
        queue = broker.queue("orders")
        for _ in range(MESSAGES // BATCH):
            queue.send_many([BODY] * BATCH)


def count(spark: "SparkSession", directory: str, options: dict[str, str]) -> int:
    """The rows per second of the better of two runs."""
    rates = []
    for _ in range(2):
        with timed() as span:
            rows = spark.read.format("leveret").options(**options).load(directory).count()
        assert rows >= MESSAGES, rows
        rates.append(span.rate(rows))
    return max(rates)


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
        fill(directory)
        spark = session("local[2]")
        try:
            figures = {f"{name}_per_s": count(spark, directory, options) for name, options in CASES.items()}
        finally:
            spark.stop()
    report("spark", messages=MESSAGES, body_bytes=len(BODY), goal_per_s=GOAL, **figures)


if __name__ == "__main__":
    main()
