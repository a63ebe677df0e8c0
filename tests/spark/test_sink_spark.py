"""The sink under Spark itself: restarts from a checkpoint, batches that are replayed, tasks that are retried."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext
from pyspark.sql.functions import udf

from tests.ingest.server_kill import appended
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.spark.query_child import Query
from tests.spark.test_sink import close_clients

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.client.queue import RemoteQueue

ROWS = 200
FEW = 50
POLL_S = 0.05
PATIENCE_S = 300.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path) as running:
        yield running


@pytest.fixture
def orders(server: ServerProcess) -> Iterator[RemoteQueue]:
    with server.client() as broker:
        yield broker.queue("orders")
    close_clients()


@pytest.fixture
def few(server: ServerProcess) -> Iterator[RemoteQueue]:
    """A queue that is soon full, and refuses more then."""
    with server.client() as broker:
        yield broker.queue("few", max_length=FEW, overflow="reject-publish")
    close_clients()


def received(queue: RemoteQueue) -> list[str]:
    """Everything in a queue, taken."""
    found: list[str] = []
    while taken := queue.receive(100):
        found += [message.data.decode() for message in taken]
        queue.ack_many(taken)
    return found


def forget_last_commit(checkpoint: Path) -> None:
    """Leave a checkpoint as a driver does that is killed when the server has published, before Spark has noted that."""
    last = max(checkpoint.glob("commits/[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def kill_driver_amid_commit(query: Query, few: RemoteQueue) -> None:
    """Run a query in a process of its own, and kill that when the batch is decided on and the queue is full."""
    driver = subprocess.Popen(query.command(), cwd=ROOT, start_new_session=True)
    try:
        until = time.monotonic() + PATIENCE_S
        while few.stats().ready < FEW:
            assert driver.poll() is None, "the driver has ended"
            assert time.monotonic() < until, "the driver publishes nothing"
            time.sleep(POLL_S)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


@pytest.mark.spark_slow
@pytest.mark.timeout(PATIENCE_S)
def test_a_queue_is_copied_once_though_the_driver_is_killed_before_it_notes_the_batch(
    spark: SparkSession, server: ServerProcess, few: RemoteQueue, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    source = {"url": server.http_url, "queue": "in", "maxRecordsPerTrigger": str(FEW + 1), "lease": "300s"}
    query = Query(source, {"url": server.http_url, "queue": "few"}, str(checkpoint))
    with server.client() as client:
        # The last row of the first batch does not fit: the driver waits for the end of the commit when it is killed.
        client.queue("in").send_many([b"%d" % number for number in range(FEW + 10)])
        kill_driver_amid_commit(query, few)
        assert list(checkpoint.glob("offsets/[0-9]*"))
        assert not list(checkpoint.glob("commits/[0-9]*"))
        found = received(few)
        query.start(spark).awaitTermination()
        assert sorted(map(int, found + received(few))) == list(range(FEW + 10))
        assert client.queue("in").stats().ready == 0


@pytest.mark.timeout(PATIENCE_S)
def test_a_stream_is_copied_once_though_batches_are_replayed_and_the_server_is_killed(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    source = {"url": server.http_url, "stream": "in", "startingOffsets": "earliest", "maxRecordsPerTrigger": "60"}
    query = Query(source, {"url": server.http_url, "queue": "out"}, str(checkpoint))
    with server.client() as client:
        given, taken = (client.stream(name, partitions=2) for name in ("in", "out"))
        given.send_many([b"%d" % number for number in range(100)])
        query.start(spark).awaitTermination()
        forget_last_commit(checkpoint)
        given.send_many([b"%d" % number for number in range(100, 150)])
        port = str(server.ports["http"])
        server.kill()
        server.start("--http-port", port)
        query.start(spark).awaitTermination()
        assert sorted(map(int, appended(taken, [0, 0]))) == list(range(150))


def failing_at_first(value: str) -> str:
    """What a task does that fails near its end, unless it was tried before."""
    context = TaskContext.get()
    if value == str(ROWS - 1) and context is not None and context.attemptNumber() == 0:
        raise RuntimeError("this attempt fails")
    return value


def test_tasks_that_fail_and_are_retried_publish_each_row_once(
    spark: SparkSession, server: ServerProcess, orders: RemoteQueue
) -> None:
    rows = spark.range(ROWS, numPartitions=2).selectExpr("cast(id as string) as value")
    retried = rows.select(udf(failing_at_first, useArrow=False)("value").alias("value"))
    retried.write.format("leveret").options(url=server.http_url, queue="orders").mode("append").save()
    assert received(orders) == [str(number) for number in range(ROWS)]
