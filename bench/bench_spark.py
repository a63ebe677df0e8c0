"""Spark on two cores: rows of segments to a count, messages of 100 bytes and their events; reports; live streams."""

import os
import tempfile
from typing import TYPE_CHECKING

import leveret
from bench import spark_stream
from bench.measure import report, timed
from leveret.pipeline import reports
from leveret.pipeline.lifecycle import lifecycle
from leveret.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = bool(os.environ.get("QUICK"))
MESSAGES = 200_000 if QUICK else 4_000_000
RECORDS = 100_000 if QUICK else 2_000_000
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


def live(directory: str) -> int:
    """Let messages be published, delivered and acknowledged; give the number of events."""
    with leveret.open(directory, sync="never") as broker:
        queue = broker.queue("orders")
        for _ in range(MESSAGES // BATCH):
            queue.send_many([BODY] * BATCH)
            queue.ack_many(queue.receive(BATCH))
    return 3 * MESSAGES


def report_s(spark: "SparkSession", directory: str) -> float:
    """Seconds from segments to the lives of messages and all reports of them."""
    with timed() as span:
        events = spark.read.format("leveret").load(directory)
        lives = lifecycle(events).cache()
        for tell in (reports.depth, reports.latency, reports.redelivery, reports.dead_letters, reports.oldest):
            tell(lives).collect()
        reports.compliance(lives, within_ms=1_000).collect()
        lives.unpersist()
    return round(span.seconds, 1)


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
        published, lived = os.path.join(directory, "published"), os.path.join(directory, "lived")
        fill(published)
        events = live(lived)
        spark = session("local[2]", **{"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"})
        try:
            figures = {f"{name}_per_s": count(spark, published, options) for name, options in CASES.items()}
            reported_s = report_s(spark, lived)
            streamed = spark_stream.stream_figures(spark, RECORDS)
        finally:
            spark.stop()
    report("spark", messages=MESSAGES, body_bytes=len(BODY), goal_per_s=GOAL, **figures)
    goal = {"body_bytes": spark_stream.RECORD_BYTES, "goal_per_s": spark_stream.GOAL_PER_S}
    report("spark_stream", records=RECORDS, **goal, **streamed)
    report("spark_report", events=events, seconds=reported_s, goal_s_for_10_000_000=60)


if __name__ == "__main__":
    main()
