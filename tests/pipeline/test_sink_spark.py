"""The sink under Spark itself: restarts from a checkpoint, batches that are replayed, tasks that are retried."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext
from pyspark.sql.functions import udf

from tests.pipeline.test_sink import close_clients
from tests.server_process import ServerProcess
from tests.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def run_query(frame: DataFrame, server: ServerProcess, checkpoint: Path) -> None:
    """Publish what has come since the last time."""
    query = (
        frame.writeStream.format("leveret")
        .options(url=server.http_url, queue="few", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def write_lines(folder: Path, number: int, count: int) -> list[str]:
    """A new file; gives its lines."""
    lines = [f"{number}-{row}" for row in range(count)]
    (folder / f"{number}.txt").write_text("\n".join(lines))
    return lines


def forget_last_commit(checkpoint: Path) -> None:
    """Leave a checkpoint as a driver does that is killed when the server has published, before Spark has noted that."""
    last = max(checkpoint.glob("commits/[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def kill_driver_amid_commit(folder: Path, checkpoint: Path, server: ServerProcess, few: RemoteQueue) -> None:
    """Run the query in a process of its own, and kill that when the batch is decided on and the queue is full."""
    child = [sys.executable, "-m", "tests.pipeline.driver_child", str(folder), str(checkpoint), server.http_url]
    driver = subprocess.Popen(child, cwd=ROOT, start_new_session=True)
    try:
        until = time.monotonic() + PATIENCE_S
        while few.stats().ready < FEW:
            assert driver.poll() is None, "the driver has ended"
            assert time.monotonic() < until, "the driver publishes nothing"
            time.sleep(POLL_S)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def test_every_row_is_published_once_though_batches_are_replayed(
    spark: SparkSession, server: ServerProcess, few: RemoteQueue, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    expected = write_lines(folder, 0, FEW // 2)
    lines = spark.readStream.schema("value string").text(str(folder))
    run_query(lines, server, checkpoint)
    forget_last_commit(checkpoint)
    expected += write_lines(folder, 1, FEW // 2)
    run_query(lines, server, checkpoint)
    assert sorted(received(few)) == sorted(expected)


@pytest.mark.spark_slow
def test_every_row_is_published_once_though_a_driver_is_killed_amid_a_commit(
    spark: SparkSession, server: ServerProcess, few: RemoteQueue, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    # The last row does not fit: the driver waits for the end of the commit when it is killed.
    expected = write_lines(folder, 0, FEW + 1)
    kill_driver_amid_commit(folder, checkpoint, server, few)
    assert not list(checkpoint.glob("commits/[0-9]*"))
    found = received(few)
    expected += write_lines(folder, 1, FEW // 2)
    run_query(spark.readStream.schema("value string").text(str(folder)), server, checkpoint)
    assert sorted(found + received(few)) == sorted(expected)


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
