"""The lives of messages: on literal rows, and against a broker whose history is known."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.testing import assertDataFrameEqual

from leveret.spark.columns import spark_schema
from leveret.spark.events import EVENTS
from leveret.spark.lifecycle import joined, lifecycle, lives, mark, streamed
from tests.spark.history import TRUTH, at, random_history, small_history, timed_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def event(name: str, seconds: float, seq: int, **more: Any) -> dict[str, Any]:
    """A row of events in the queue `orders`."""
    known = {"event": name, "at": at(seconds), "vhost": "/", "queue": "orders", "queue_id": 1, "seq": seq}
    if name in ("published", "moved"):
        known |= {"enqueued_at": at(seconds), "priority": 0, "bytes": 10}
    return dict.fromkeys(EVENTS) | known | more


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in rows], spark_schema(EVENTS))


def lives_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return lifecycle(frame(spark, rows))


def test_times_and_counts_of_a_message_that_failed_once(spark: SparkSession) -> None:
    found = lives_of(
        spark,
        [
            event("published", 0, 7, priority=3),
            event("delivered", 2, 7, deliveries=1, consumer="slow"),
            event("returned", 3, 7, reason="nacked", deliveries=1, held_ms=1000, consumer="slow"),
            event("delivered", 10, 7, deliveries=2, consumer="quick"),
            event("settled", 10.5, 7, reason="acked", deliveries=2, held_ms=500, consumer="quick"),
        ],
    )
    row = (
        "/", "orders", 1, 7, at(0), None, at(2), at(10.5), "acked", None, 2, 1, 2000, 1500, 10_500, 10, 3,
        "quick", False,
    )  # fmt: skip
    assertDataFrameEqual(found, spark.createDataFrame([row], found.schema))


def test_waiting_begins_when_a_delayed_message_is_due(spark: SparkSession) -> None:
    found = lives_of(spark, [event("published", 0, 1, due_at=at(60)), event("delivered", 61, 1, deliveries=1)])
    assert [(row.waiting_ms, row.outcome) for row in found.collect()] == [(1000, "open")]


def test_a_purge_ends_what_is_below_it_and_was_not_spared(spark: SparkSession) -> None:
    found = lives_of(
        spark,
        [
            *(event("published", number, number) for number in (1, 2, 3, 4, 5)),
            event("settled", 6, 1, reason="acked", deliveries=1, held_ms=0),
            event("purged", 10, 4),
            event("spared", 10, 2),
            event("purged", 20, 5, queue_id=2, queue="others"),
        ],
    )
    outcomes = {row.seq: (row.outcome, row.settled_at) for row in found.collect()}
    known = {seq: (outcome, when and when.astimezone(UTC)) for seq, (outcome, when) in outcomes.items()}
    assert known == {
        1: ("acked", at(6)),
        2: ("open", None),
        3: ("purged", at(10)),
        4: ("open", None),
        5: ("open", None),
    }


def test_a_message_that_was_moved_forward_is_one(spark: SparkSession) -> None:
    moved = event("moved", 100, 1, enqueued_at=at(0))
    found = lives_of(spark, [event("published", 0, 1), moved, event("delivered", 101, 1, deliveries=1)]).collect()
    assert [(row.seq, row.waiting_ms) for row in found] == [(1, 101_000)]


def test_the_lives_in_a_directory_are_those_that_the_broker_saw(spark: SparkSession, tmp_path: Path) -> None:
    truth = timed_history(tmp_path)
    found = lifecycle(spark.read.format("leveret").load(str(tmp_path))).select(*TRUTH)
    assertDataFrameEqual(found, spark.createDataFrame(truth, found.schema))


def test_the_lives_of_a_random_run_are_those_that_its_clients_saw(spark: SparkSession, tmp_path: Path) -> None:
    truth = random_history(tmp_path, seed=1)
    assert {row[TRUTH.index("outcome")] for row in truth} == {"acked", "rejected", "purged", "open"}
    found = lifecycle(spark.read.format("leveret").load(str(tmp_path))).select(*TRUTH)
    assertDataFrameEqual(found, spark.createDataFrame(truth, found.schema))


def test_a_stream_tells_the_same_lives_although_some_are_settled_long_after(
    spark: SparkSession, tmp_path: Path
) -> None:
    day = 86_400
    rows = [
        event("published", 0, 1),
        event("delivered", 1, 1, deliveries=1, consumer="a"),
        event("settled", 2, 1, reason="acked", deliveries=1, held_ms=1000, consumer="a"),
        event("published", 0, 2),
        event("published", 0, 3),
        event("purged", 10, 4),
        event("spared", 10, 2),
        event("delivered", day, 2, deliveries=1, consumer="b"),
        event("settled", day + 1, 2, reason="rejected", deliveries=1, held_ms=1000, consumer="b"),
        # What comes after a while shows that nothing else will come.
        event("defined", 3 * day, 0, queue_id=None),
        event("published", 4 * day, 9),
    ]
    events = frame(spark, rows)
    # One file for each batch: state has to live on between them.
    for number, (start, end) in enumerate(((0, 5), (5, 9), (9, len(rows)))):
        frame(spark, rows[start:end]).coalesce(1).write.mode("append").parquet(str(tmp_path / "in" / f"{number}"))
    stream = spark.readStream.schema(events.schema).option("maxFilesPerTrigger", 1)

    def follow() -> DataFrame:
        query = (
            streamed(stream.parquet(str(tmp_path / "in" / "*")), late="1 minute", quiet="1 hour")
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "fragments"), "parquet")
        )
        assert query.awaitTermination(60)
        return spark.read.parquet(str(tmp_path / "fragments"))

    fragments = follow()
    assert fragments.where("seq = 2 and purged_at is null").count() == 2
    # The newest message may still go on: it is in the state.
    assertDataFrameEqual(lives(joined(fragments)), lifecycle(events).where("seq < 9"))
    # No event comes any more, and a mark says so.
    mark(tmp_path / "in" / "2", at(5 * day))
    assertDataFrameEqual(lives(joined(follow())), lifecycle(events))


def test_a_data_frame_is_the_same_after_others_were_made_of_it(spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps what it pushed down for one query of a DataFrame, and uses it for others."""
    small_history(tmp_path)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        messages = spark.read.format("leveret").options(table="messages", pushdown="true").load(str(tmp_path))
        whole = messages.count()
        orders = messages.where("queue = 'orders'")
        assert (orders.count(), messages.count()) == (whole - 1, whole)
        assert orders.union(messages.where("queue = 'invoices'")).union(messages).count() == 2 * whole
        late = "queue = 'orders' and enqueued_at > timestamp'2020-01-01' and offset > 3"
        kept = messages.where(late).cache()
        assert (kept.count(), messages.where("queue = 'invoices'").count(), messages.count()) == (2, 1, whole)
        assert {bytes(row.value) for row in kept.collect()} == {b"order 4", b"order 5"}
        kept.unpersist()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_directory_without_segments_is_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.read.format("leveret").load(str(tmp_path)).count() == 0
