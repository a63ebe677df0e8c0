"""The sink on two cores: rows of 100 bytes from Spark to a queue or stream of a real server, all committed at once."""

from typing import TYPE_CHECKING

from bench.bench_rest import server
from bench.spark_cost import cheapest, costed
from leveret.client.broker import connect
from leveret.runtime.stream import StreamStats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL_PER_S = 100_000
BODY_BYTES = 100
RUNS = 2
PARTITIONS = 4
CASES = {
    "alike": ["value"],
    "with_ids": ["value", "message_id", "priority"],
    "stream": ["value"],
    "stream_keyed": ["value", "key"],
}
"""What rows say besides their body: nothing, or something for each."""


def sink_figures(spark: "SparkSession", rows: int) -> dict[str, float]:
    """Rows per second of the better of two writes, and the CPU of all processes for a row, the server's apart."""
    figures: dict[str, float] = {}
    for name, columns in CASES.items():
        spans, served = [], []
        for _ in range(RUNS):
            with server() as running, connect(f"http://127.0.0.1:{running.port}", token=running.token) as broker:
                place = broker.stream("orders", partitions=PARTITIONS) if "stream" in name else broker.queue("orders")
                frame = spark.range(rows, numPartitions=2).selectExpr(
                    f"rpad(cast(id as string), {BODY_BYTES}, 'x') as value", "cast(id as string) as message_id",
                    "cast(id % 5 as int) as priority", "cast(id % 1000 as string) as key",
                )  # fmt: skip
                options = {"url": f"http://127.0.0.1:{running.port}", "token": running.token, "queue": "orders"}
                before = running.cpu_seconds()
                with costed() as span:
                    frame.select(*columns).write.format("leveret").options(**options).mode("append").save()
                served.append(running.cpu_seconds() - before)
                spans.append(span)
                stats = place.stats()
                assert (stats.records if isinstance(stats, StreamStats) else stats.ready) == rows
        figures |= {f"{name}_{unit}": value for unit, value in cheapest(spans, rows).items()}
        figures[f"{name}_server_cpu_us"] = round(min(served) * 1e6 / rows, 3)
    return figures
