"""The workload that is made up: the same each time, of the form of the real one, and not too regular."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest
from pyspark.sql import functions as F

from leveret.core.errors import InvalidArgument
from leveret.spark.columns import spark_schema
from leveret.spark.events import EVENTS
from leveret.spark.generate import TrafficVolume, events, messages, queue_names
from leveret.spark.lifecycle import lifecycle
from leveret.spark.plan import observed
from leveret.spark.tables import read_table
from tests.server_process import ServerProcess
from tests.spark.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRAFFIC = TrafficVolume(3_000, queues=10, days=2, failures=0.2)


def test_the_events_of_a_workload_are_those_of_a_broker(spark: SparkSession) -> None:
    made = events(spark, TRAFFIC).cache()
    assert made.schema.simpleString() == spark.createDataFrame([], spark_schema(EVENTS)).schema.simpleString()
    assert made.agg(F.sum(F.xxhash64(*made.columns) % 1_000_003)).first() == (
        events(spark, TRAFFIC).agg(F.sum(F.xxhash64(*made.columns) % 1_000_003)).first()
    )
    lives = lifecycle(made).cache()
    originals = lives.where("queue not like '%.dead'")
    facts = originals.agg(
        F.count("*").alias("messages"),
        F.count_if(F.col("deliveries") > 1).alias("again"),
        F.count_if(F.col("outcome").isin("rejected", "expired", "delivery_limit")).alias("dead"),
        F.count_if(F.col("outcome") == "open").alias("open"),
        F.count_if(F.col("settled_at") < F.col("enqueued_at")).alias("impossible"),
        F.count_if((F.col("outcome") == "acked") & (F.col("deliveries") == 0)).alias("undelivered"),
    ).first()
    assert facts is not None
    assert facts["messages"] == TRAFFIC.messages
    assert 0 < facts["dead"] < facts["again"] < TRAFFIC.messages / 2
    assert (facts["impossible"], facts["undelivered"]) == (0, 0)
    assert facts["open"] < 20
    assert lives.where("queue like '%.dead'").count() == facts["dead"]

    sizes = [row["count"] for row in originals.groupBy("queue").count().orderBy(F.desc("count")).collect()]
    assert len(sizes) == TRAFFIC.queues
    assert sizes[0] > 5 * sizes[-1]
    hours = {row[0]: row[1] for row in originals.groupBy(F.hour("enqueued_at")).count().collect()}
    assert hours[14] > 2 * hours[2]

    load = observed(made)
    assert load.messages_per_s * 2 * 86_400 == pytest.approx(TRAFFIC.messages + facts["dead"], rel=0.01)
    assert 1.3 < load.peak_factor < 4
    assert TRAFFIC.queues < load.queues <= 2 * TRAFFIC.queues


def test_messages_to_publish_fit_the_queues(spark: SparkSession) -> None:
    rows = messages(spark, TrafficVolume(100, queues=3)).collect()
    assert len({row["message_id"] for row in rows}) == 100
    assert {row["routing_key"] for row in rows} <= set(queue_names(TrafficVolume(100, queues=3)))
    assert all(bytes(row["value"]).startswith(b'{"number": ') and bytes(row["value"]).endswith(b'"}') for row in rows)


def test_a_workload_is_published_to_a_server_as_it_was_made(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    traffic = TrafficVolume(200, queues=3)
    facts = ("routing_key", "priority", "message_id", "content_type", "timestamp", "headers", "value")
    with ServerProcess(tmp_path) as server:
        assert run("generate", messages=200, queues=3, publish=server.http_url)["published"] == 200
        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            _, properties, body = connection.channel().basic_get("queue-00001", auto_ack=True)
        stored = read_table(spark, "messages", path=str(server.data)).select(*facts)
        made = messages(spark, traffic).select(*facts)
        # A timestamp of AMQP has whole seconds.
        made = made.withColumn("timestamp", F.date_trunc("second", "timestamp"))
        assert stored.orderBy("message_id").collect() == made.orderBy("message_id").collect()
    assert properties is not None
    (first,) = made.where(F.col("message_id") == properties.message_id).collect()
    assert (properties.priority, properties.headers, body) == (first.priority, first.headers, bytes(first.value))
    assert {row.priority for row in made.collect()} > {0}
    assert (properties.timestamp, properties.delivery_mode) == (int(first.timestamp.timestamp()), 2)


@pytest.mark.parametrize("wrong", [{"messages": 0}, {"queues": 0}, {"failures": 0.9}, {"days": 0}])
def test_a_workload_that_cannot_be_made_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        TrafficVolume(**({"messages": 1} | wrong))
