"""A stream of a live server to a count in Spark, records of 100 bytes: as a table, and as a streaming query."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import leveret
from bench.bench_sqs import free_port, process
from bench.measure import Span
from bench.spark_cost import cheapest, costed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL_PER_S = 500_000
RECORD_BYTES = 100
PARTITIONS = 2
BATCH = 1_000
RUNS = 2


def stream_figures(spark: "SparkSession", records: int) -> dict[str, float]:
    """Records per second of the better of two runs of each way to read, and the CPU of all processes for a record."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
        data, port = os.path.join(directory, "data"), free_port()
        fill(data, records)
        flags = ["--data", data, "--amqp-port", "0", "--sqs-port", "off", "--http-port", str(port)]
        with process([sys.executable, "-m", "leveret", "serve", *flags], port):
            options = {
                "url": f"http://guest:guest@127.0.0.1:{port}",
                "stream": "clicks",
                "startingOffsets": "earliest",
                "columns": "partition,offset,enqueued_at,value",
            }
            checkpoints = [Path(directory) / str(run) for run in range(RUNS)]
            ways = {
                "table": [table(spark, options, records) for _ in range(RUNS)],
                "query": [query(spark, options, records, checkpoint) for checkpoint in checkpoints],
            }
    return {f"{way}_{unit}": value for way, spans in ways.items() for unit, value in cheapest(spans, records).items()}


def fill(data: str, records: int) -> None:
    """Append records to all partitions in turn."""
    with leveret.open(data, sync="never") as broker:
        stream = broker.stream("clicks", partitions=PARTITIONS)
        for _ in range(records // BATCH):
            stream.send_many([bytes(RECORD_BYTES)] * BATCH)


def table(spark: "SparkSession", options: dict[str, str], records: int) -> Span:
    """A range to a count."""
    with costed() as span:
        rows = spark.read.format("leveret").options(**options).load().count()
    assert rows == records, rows
    return span


def query(spark: "SparkSession", options: dict[str, str], records: int, checkpoint: Path) -> Span:
    """A streaming query to nowhere; the time that it takes to start is not counted, its CPU is."""
    source = spark.readStream.format("leveret").options(**options).load()
    writer = source.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    with costed() as span:
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
    done = [progress for progress in running.recentProgress if progress.numInputRows]
    assert sum(progress.numInputRows for progress in done) == records
    span.seconds = sum(progress.batchDuration for progress in done) / 1000
    return span
