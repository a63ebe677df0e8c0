"""The sink under Spark itself: restarts from a checkpoint, batches that are replayed, tasks that are retried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext
from pyspark.sql.functions import udf

from tests.pipeline.test_sink import close_clients
from tests.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from leveret.client.queue import RemoteQueue

ROWS = 200


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path) as running:
        yield running


@pytest.fixture
def orders(server: ServerProcess) -> Iterator[RemoteQueue]:
    with server.client() as broker:
        yield broker.queue("orders")
    close_clients()


def received(queue: RemoteQueue) -> list[str]:
    """Everything in a queue, taken."""
    found: list[str] = []
    while taken := queue.receive(100):
        found += [message.data.decode() for message in taken]
        queue.ack_many(taken)
    return found


def options(server: ServerProcess) -> dict[str, str]:
    return {"url": server.http_url, "queue": "orders"}


def run_query(frame: DataFrame, server: ServerProcess, checkpoint: Path) -> None:
    """Publish what has come since the last time."""
    query = (
        frame.writeStream.format("leveret")
        .options(**options(server), checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """Leave a checkpoint as a driver does that is killed when the server has published, before Spark has noted that."""
    last = max(checkpoint.glob("commits/[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def test_every_row_is_published_once_though_batches_are_replayed(
    spark: SparkSession, server: ServerProcess, orders: RemoteQueue, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    lines = spark.readStream.schema("value string").text(str(folder))
    expected: list[str] = []
    for round in range(2):
        texts = [f"{round}-{row}" for row in range(ROWS // 2)]
        (folder / f"{round}.txt").write_text("\n".join(texts))
        expected += texts
        run_query(lines, server, checkpoint)
        forget_last_commit(checkpoint)
    run_query(lines, server, checkpoint)
    assert sorted(received(orders)) == sorted(expected)


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
    retried.write.format("leveret").options(**options(server)).mode("append").save()
    assert received(orders) == [str(number) for number in range(ROWS)]
