"""Redrive on a real broker: dead letters go back once, unchanged by the broker itself, changed through the sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import leveret
from leveret.core.errors import PreconditionFailed
from leveret.spark import transfer as transfers
from leveret.spark.publishing import Pace, SinkBroker
from leveret.spark.redrive import redrive
from leveret.spark.replay import ReplayRequest
from leveret.spark.transfer import Transfer, transfer
from tests.ingest.conftest import received
from tests.protocols.rest.world import RestWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RestWorld]:
    """A broker with six dead letters of the queue orders, numbered from 0."""
    with leveret.open(tmp_path / "data", sync="never") as broker, RestWorld(broker) as running:
        broker.queue("graveyard")
        orders = broker.queue("orders", dead_letter="graveyard")
        for number in range(6):
            orders.send(f"order {number}".encode(), headers={"number": number})
            orders.receive()[0].reject()
        yield running


def letters(*numbers: int) -> list[bytes]:
    return [f"order {number}".encode() for number in numbers]


def test_dead_letters_that_were_chosen_go_back_to_where_they_died(spark: SparkSession, world: RestWorld) -> None:
    broker = SinkBroker(world.url, world.token)
    with leveret.connect(world.url, token=world.token) as client:
        queue = client.queue("graveyard", create=False)
        rows = broker.browsed(spark, "graveyard")
        done = redrive(rows, "headers['number'] >= 2", 3, queue, None, Pace(None))
        assert (done.matched, done.moved, done.skipped) == (3, 3, 0)
        assert [message.data for message in world.broker.queue("orders", dead_letter="graveyard").browse()] == letters(
            2, 3, 4
        )
        assert [message.data for message in world.broker.queue("graveyard").browse()] == letters(0, 1, 5)


def test_dead_letters_that_are_changed_arrive_once_even_if_it_is_interrupted(
    spark: SparkSession, world: RestWorld, tmp_path: Path
) -> None:
    retry = world.broker.queue("retry.orders")
    request = ReplayRequest("headers['number'] >= 2", ("routing_key = concat('retry.', routing_key)",))
    job = Transfer(SinkBroker(world.url, world.token), "graveyard", request)
    checkpoint = str(tmp_path / "checkpoint")

    def interrupted(published: int, whole: int) -> None:
        raise ConnectionError("nobody waits any more")

    with pytest.raises(ConnectionError):
        transfer(spark, job, checkpoint, Pace(None), 2, interrupted)
    other = Transfer(job.broker, "graveyard", ReplayRequest())
    with pytest.raises(PreconditionFailed, match="another redrive"):
        transfer(spark, other, checkpoint, Pace(None))
    transfer(spark, job, checkpoint, Pace(1_000), batch_rows=2)
    assert received(retry) == letters(2, 3, 4, 5)
    assert received(world.broker.queue("graveyard")) == letters(0, 1)
    assert not [queue.name for queue in world.broker.queues() if ".transfer-" in queue.name]
    assert transfers._STATE not in {path.name for path in Path(checkpoint).iterdir()}
