"""Spark on two cores: rows of segments to a count; events and their reports; the sink; live streams; and latency."""

import os
import tempfile
from typing import TYPE_CHECKING

import leveret
from bench import spark_stream
from bench.measure import Span, report, timed
from bench.spark_cost import cheapest, costed
from bench.spark_latency import latency_figures
from bench.spark_sink import BODY_BYTES, GOAL_PER_S, sink_figures
from leveret.spark.archive import Archive, archive
from leveret.spark.generate import TrafficVolume, events
from leveret.spark.report.job import build_from
from leveret.spark.report.tables import Sources
from leveret.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = bool(os.environ.get("QUICK"))
MESSAGES = 200_000 if QUICK else 4_000_000
SEGMENT_BYTES = (8 if QUICK else 64) << 20
SUNK = 100_000 if QUICK else 1_000_000
RECORDS = 100_000 if QUICK else 2_000_000
QUEUES = 20
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
    with leveret.open(directory, sync="never", segment_bytes=SEGMENT_BYTES) as broker:
        queue = broker.queue("orders")
        for _ in range(MESSAGES // BATCH):
            queue.send_many([BODY] * BATCH)


def report_span(spark: "SparkSession", directory: str) -> tuple[int, Span]:
    """How many events there are, and what it takes from there to the lives of messages and a whole report."""
    path = os.path.join(directory, "events")
    # Three events for most messages, more for those that fail.
    events(spark, TrafficVolume(MESSAGES * 13 // 16, queues=QUEUES)).write.parquet(path)
    happened = spark.read.parquet(path)
    with costed() as span:
        build_from(spark, Sources(happened, None), os.path.join(directory, "report"))
    return happened.count(), span


def archive_rate(spark: "SparkSession", directory: str, out: str) -> tuple[int, int]:
    """Rows of sealed segments that become Parquet, and how many in a second."""
    with timed() as span:
        done = archive(spark, Archive(out, (directory,), retention_days=None, compact=False), 0)
    rows = done.events + done.messages
    return rows, span.rate(rows)


def count(spark: "SparkSession", directory: str, options: dict[str, str]) -> dict[str, float]:
    """The rows per second of the better of two runs, and the CPU for a row."""
    spans = []
    for _ in range(2):
        with costed() as span:
            rows = spark.read.format("leveret").options(**options).load(directory).count()
        assert rows >= MESSAGES, rows
        spans.append(span)
    return cheapest(spans, rows)


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
        published = os.path.join(directory, "published")
        fill(published)
        spark = session("local[2]", **{"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "8"})
        try:
            counts = {name: count(spark, published, options) for name, options in CASES.items()}
            events_total, reported = report_span(spark, directory)
            archived, archived_per_s = archive_rate(spark, published, os.path.join(directory, "parquet"))
            sunk = sink_figures(spark, SUNK)
            streamed = spark_stream.stream_figures(spark, RECORDS)
            latency = latency_figures(spark)
        finally:
            spark.stop()
    figures = {f"{name}_{unit}": value for name, each in counts.items() for unit, value in each.items()}
    report("spark", messages=MESSAGES, body_bytes=len(BODY), goal_per_s=GOAL, **figures)
    report("spark_archive", rows=archived, rows_per_s=archived_per_s)
    report("spark_sink", rows=SUNK, body_bytes=BODY_BYTES, goal_per_s=GOAL_PER_S, **sunk)
    goal = {"body_bytes": spark_stream.RECORD_BYTES, "goal_per_s": spark_stream.GOAL_PER_S}
    report("spark_stream", records=RECORDS, **goal, **streamed)
    report("spark_latency", **latency)
    cost = {"seconds": round(reported.seconds, 1), "cpu_seconds": round(reported.cpu_seconds, 1)}
    report("spark_report", events=events_total, **cost, goal_s_for_10_000_000=60)


if __name__ == "__main__":
    main()
