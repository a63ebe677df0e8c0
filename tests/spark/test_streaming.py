"""Streaming queries of Spark on a real server: restarts on both sides, and every message counted once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest

import leveret
from leveret.spark.progress import lag
from tests.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUERY_S = 300


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path) as running:
        yield running


def url(server: ServerProcess) -> str:
    return f"http://guest:guest@127.0.0.1:{server.ports['http']}"


def restart(server: ServerProcess) -> None:
    """Kill it, and start it again at the same place."""
    port = str(server.ports["http"])
    server.kill()
    server.start("--http-port", port)


def send(server: ServerProcess, first: int, end: int) -> None:
    with leveret.connect(url(server)) as client:
        client.queue("orders").send_many([b"%d" % number for number in range(first, end)])


class Written:
    """A query that writes to files, which Spark does exactly once."""

    def __init__(self, spark: SparkSession, folder: Path, source: DataFrame) -> None:
        self._spark = spark
        self._out = str(folder / "out")
        writer = source.selectExpr("cast(value as string) as value").writeStream.format("parquet")
        self._writer = writer.option("path", self._out).option("checkpointLocation", str(folder / "checkpoint"))

    def start(self) -> StreamingQuery:
        return self._writer.start()

    def finish(self) -> None:
        """Write what is there now."""
        query = self._writer.trigger(availableNow=True).start()
        assert query.awaitTermination(QUERY_S)

    def values(self) -> list[int]:
        return sorted(int(row.value) for row in self._spark.read.parquet(self._out).collect())


def stream(server: ServerProcess, first: int, end: int) -> None:
    """Append to the stream by AMQP, as any client would."""
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("clicks", durable=True, arguments={"x-queue-type": "stream", "x-partitions": 2})
        for number in range(first, end):
            headers = {"x-partition-key": str(number)}
            channel.basic_publish("", "clicks", b"%d" % number, pika.BasicProperties(headers=headers))


def test_a_stream_is_written_exactly_once_over_restarts_and_a_killed_worker(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    stream(server, 0, 200)
    options = {"url": url(server), "stream": "clicks", "startingOffsets": "earliest", "maxRecordsPerTrigger": "150"}
    source = spark.readStream.format("leveret").options(**options, minPartitions="4")
    query = Written(spark, tmp_path, source.load())
    query.finish()
    assert query.values() == list(range(200))
    running = query.start()
    stream(server, 200, 300)
    restart(server)
    stream(server, 300, 400)
    running.processAllAvailable()
    told = [progress.sources[0] for progress in running.recentProgress if progress.numInputRows]
    assert told
    for each in told:
        assert sum(json.loads(each.latestOffset).values()) >= sum(json.loads(each.endOffset).values())
    assert lag(told[-1]) == 0
    running.stop()
    query.finish()
    assert query.values() == list(range(400))
    table = spark.read.format("leveret").options(**options, minPartitions="4").load()
    dying = table.select("value").rdd.mapPartitions(dies_once(tmp_path / "died"))
    assert sorted(int(row.value) for row in dying.collect()) == list(range(400))
    assert (tmp_path / "died").exists()


def dies_once(marker: Path) -> Callable[[Iterable[Row]], Iterable[Row]]:
    """Lets the process of the first task that has read something be killed: Spark runs that task again."""

    def work(rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield row

    return work


def test_a_queue_is_written_exactly_once_over_restarts_of_query_and_server(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    send(server, 0, 1_000)
    source = spark.readStream.format("leveret").options(url=url(server), queue="orders", maxRecordsPerTrigger="300")
    query = Written(spark, tmp_path, source.load())
    query.finish()
    assert query.values() == list(range(1_000))
    send(server, 1_000, 1_500)
    restart(server)
    running = query.start()
    restart(server)
    send(server, 1_500, 1_600)
    running.processAllAvailable()
    running.stop()
    assert query.values() == list(range(1_600))
    query.finish()
    assert query.values() == list(range(1_600))
    with leveret.connect(url(server)) as client:
        assert client.queue("orders").stats().ready == client.queue("orders").stats().leased == 0
