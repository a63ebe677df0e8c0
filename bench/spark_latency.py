"""Records through a streaming query, one at a time: how long each takes from stream to queue, and a batch by itself."""

import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

from bench.bench_rest import server
from leveret.client.broker import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 20
WARM = 3
"""Batches that start Python processes and make Java compile."""
RECEIVE_S = 120


def latency_figures(spark: "SparkSession") -> dict[str, float]:
    """Milliseconds from a send to the receive behind the query, and of a batch with one record."""
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory,
        server() as running,
        connect(f"http://127.0.0.1:{running.port}", token=running.token) as broker,
    ):
        options = {"url": f"http://127.0.0.1:{running.port}", "token": running.token}
        stream, queue = broker.stream("in"), broker.queue("out")
        source = spark.readStream.format("leveret").options(**options, stream="in", columns="value").load()
        writer = source.writeStream.format("leveret").options(**options, queue="out", checkpointLocation=directory)
        query = writer.start()
        try:
            while not query.recentProgress:
                time.sleep(0.05)
            taken_ms = []
            for number in range(WARM + RECORDS):
                started = time.perf_counter()
                stream.send(b"%d" % number)
                (message,) = queue.receive(wait=RECEIVE_S)
                taken_ms.append((time.perf_counter() - started) * 1000)
                assert message.data == b"%d" % number
                message.ack()
            batches = [each for each in query.recentProgress if each.numInputRows][WARM:]
        finally:
            query.stop()
    latency_ms = sorted(taken_ms[WARM:])
    return {
        "records": RECORDS,
        "latency_p50_ms": round(statistics.median(latency_ms)),
        "latency_max_ms": round(latency_ms[-1]),
        "batch_p50_ms": round(statistics.median(each.batchDuration for each in batches)),
        "tasks_p50_ms": round(statistics.median(each.durationMs["addBatch"] for each in batches)),
    }
