"""The sink on two cores: rows of 100 bytes from Spark to a queue of a real server, all of them committed at once."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.amqp.processes import tree
from bench.bench_rest import server
from bench.measure import timed
from leveret.client.broker import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL_PER_S = 100_000
BODY_BYTES = 100
RUNS = 2
CASES = {"alike": ["value"], "with_ids": ["value", "message_id", "priority"]}
"""What rows say besides their body: nothing, or something for each."""


def sink_figures(spark: "SparkSession", rows: int) -> dict[str, Any]:
    """Rows per second of the better of two writes, and the CPU of all processes for a row, the server's apart."""
    figures: dict[str, Any] = {}
    for name, columns in CASES.items():
        best: dict[str, Any] = {}
        for _ in range(RUNS):
            with server() as running, connect(f"http://127.0.0.1:{running.port}", token=running.token) as broker:
                broker.queue("orders")
                frame = spark.range(rows, numPartitions=2).selectExpr(
                    f"rpad(cast(id as string), {BODY_BYTES}, 'x') as value", "cast(id as string) as message_id",
                    "cast(id % 5 as int) as priority",
                )  # fmt: skip
                options = {"url": f"http://127.0.0.1:{running.port}", "token": running.token, "queue": "orders"}
                before, served = cpu_s(), running.cpu_seconds()
                with timed() as span:
                    frame.select(*columns).write.format("leveret").options(**options).mode("append").save()
                served = running.cpu_seconds() - served
                used = cpu_s() - before
                assert broker.queue("orders").stats().ready == rows
            if span.rate(rows) > best.get("per_s", 0):
                best = {"per_s": span.rate(rows), "cpu_us": round(used * 1e6 / rows, 1)}
                best["server_cpu_us"] = round(served * 1e6 / rows, 1)
        figures |= {f"{name}_{unit}": value for unit, value in best.items()}
    return figures


def cpu_s() -> float:
    """The CPU time of this process and all that it has started, Java and its Python workers too."""
    total = 0.0
    for pid in tree(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total
