"""One job of each kind, on the Spark that is first on the path; prints what it found as JSON.

python -m tests.spark.version_child FOLDER URL
"""

import json
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import leveret
from leveret.clock import SystemClock
from leveret.spark.archive import Archive, archive
from leveret.spark.lifecycle import lifecycle
from leveret.spark.session import SMALL, session
from leveret.spark.testing import MemorySource
from tests.spark.test_sink import close_clients

QUERY_S = 300


def copied(spark: SparkSession, url: str, folder: Path, **limits: str) -> int:
    """Records that a streaming query brings from the stream to the queue, until all that is there now is copied."""
    options = {"url": url, "stream": "clicks", "startingOffsets": "earliest", **limits}
    source = spark.readStream.format("leveret").options(**options).load().select("value")
    writer = source.writeStream.format("leveret").options(url=url, queue="orders")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_S)
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


def published(events: DataFrame) -> int:
    """Messages that were published to the queue of the journal."""
    return events.where("event = 'published' and queue = 'orders'").count()


def refusals(spark: SparkSession, url: str, folder: Path) -> dict[str, str]:
    """What this version refuses, and in which words."""
    found = {}
    limited = {"stream": "clicks", "maxRecordsPerTrigger": "5"}
    for name, options in (("queue as a stream", {"queue": "orders"}), ("maxRecordsPerTrigger", limited)):
        frame = spark.readStream.format("leveret").options(url=url, **options).load()
        writer = frame.writeStream.format("memory").queryName(f"q{len(options)}")
        query = writer.option("checkpointLocation", str(folder / name.replace(" ", "-"))).trigger(availableNow=True)
        try:
            query.start().awaitTermination(QUERY_S)
        except PySparkException as error:
            found[name] = "needs Spark 4.2" if "needs Spark 4.2 or newer" in str(error) else str(error)
    return found


def real_time(spark: SparkSession, url: str, folder: Path) -> str:
    """What becomes of a query in real-time mode: no version has it for sources in Python."""
    if "realTime" not in signature(DataStreamWriter.trigger).parameters:
        return "refused"
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")  # which is about sinks
    frame = spark.readStream.format("leveret").options(url=url, stream="clicks").load()
    writer = frame.writeStream.format("memory").queryName("real_time").outputMode("update")
    trigger: Any = writer.option("checkpointLocation", str(folder / "real-time")).trigger
    try:
        trigger(realTime="5 seconds").start().awaitTermination(QUERY_S)
    except PySparkException as error:
        return "refused" if "REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED" in str(error) else str(error)
    return "done"


def main(folder: Path, url: str) -> None:
    spark = session("local[2]", **SMALL, **{"spark.sql.warehouse.dir": str(folder / "warehouse")})
    table = spark.read.format("leveret")
    journal = table.load(str(folder / "data"))
    told: dict[str, object] = {"version": pyspark.__version__, "events of the journal": published(journal)}
    archive(spark, Archive(str(folder / "archive"), (str(folder / "handed"),)), SystemClock().now_ms())
    told["archived"] = [published(table.load(str(folder / place))) for place in ("handed", "archive")]
    told["lives"] = lifecycle(journal).count()
    told["records of the stream"] = table.options(url=url, stream="clicks").load().count()
    first = copied(spark, url, folder)
    with leveret.connect(url) as client:
        client.stream("clicks").send_many([b"%d" % number for number in range(10)])
    told["records that the query read"] = [first, copied(spark, url, folder)]
    told["messages of the queue"] = spark.read.format("leveret").options(url=url, queue="orders").load().count()
    told["refused"] = refusals(spark, url, folder)
    told["real time"] = real_time(spark, url, folder)
    source = MemorySource(spark)
    source.add({"value": "one"}, {"value": "two"})
    told["rows for a job under test"] = source.table().count()
    print(json.dumps(told))
    spark.stop()
    close_clients()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
