"""The reports, on literal rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from leveret.pipeline import reports
from leveret.pipeline.columns import spark_schema
from leveret.pipeline.events import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIFE = (
    "vhost string, queue string, enqueued_at timestamp, first_delivered_at timestamp, settled_at timestamp, "
    "outcome string, deliveries int, waiting_ms bigint, processing_ms bigint, total_ms bigint"
)


def life(enqueued_min: int, settled_min: int | None, outcome: str = "acked", deliveries: int = 1) -> tuple[Any, ...]:
    """A message of the queue `orders` that waited for one second and was worked on for a minute for each delivery."""
    enqueued = NOON + timedelta(minutes=enqueued_min)
    settled = None if settled_min is None else NOON + timedelta(minutes=settled_min)
    total_ms = None if settled_min is None else (settled_min - enqueued_min) * 60_000
    first = enqueued + timedelta(seconds=1) if deliveries else None
    waiting_ms, processing_ms = (1000, 60_000 * deliveries) if deliveries else (None, None)
    return "/", "orders", enqueued, first, settled, outcome, deliveries, waiting_ms, processing_ms, total_ms


@pytest.fixture(scope="module")
def lives(spark: SparkSession) -> DataFrame:
    """Four messages at noon, one in the next hour; nothing happens in the third; the last goes in the fourth."""
    rows = [
        life(0, 10),
        life(1, 20, deliveries=3),
        life(2, 70, outcome="rejected"),
        life(3, None, outcome="open", deliveries=0),
        life(61, 190, outcome="expired", deliveries=0),
    ]
    return spark.createDataFrame(rows, LIFE).cache()


def told(report: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a report, `hour` as a number of hours since noon."""
    rows = report.orderBy(*[name for name in ("hour", "reason") if name in report.columns]).collect()
    return [tuple(_plain(row[name]) for name in columns) for row in rows]


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).hour - 12 if isinstance(value, datetime) else value


def test_depth_is_known_for_every_hour_also_for_a_quiet_one(lives: DataFrame) -> None:
    found = told(reports.depth(lives), "hour", "entered", "left", "depth")
    assert found == [(0, 4, 2, 2), (1, 1, 1, 2), (2, 0, 0, 2), (3, 0, 1, 1)]


def test_percentiles_are_of_the_messages_that_have_a_time(lives: DataFrame) -> None:
    found = told(reports.latency(lives), "hour", "messages", "waiting_p50_ms", "processing_p50_ms", "processing_p99_ms")
    assert found == [(0, 4, 1000.0, 60_000.0, pytest.approx(177_600.0)), (1, 1, None, None, None)]


def test_redelivery_is_a_share_of_what_was_delivered(lives: DataFrame) -> None:
    found = told(reports.redelivery(lives), "hour", "delivered", "redelivered", "share")
    assert found == [(0, 3, 1, pytest.approx(1 / 3))]


def test_dead_letters_are_counted_by_reason(lives: DataFrame) -> None:
    assert told(reports.dead_letters(lives), "hour", "reason", "messages") == [(1, "rejected", 1), (3, "expired", 1)]


def test_the_oldest_open_message_is_named(lives: DataFrame) -> None:
    (row,) = reports.oldest(lives).collect()
    assert (row.messages, row.oldest_at.astimezone(UTC)) == (1, NOON + timedelta(minutes=3))


def test_compliance_counts_what_was_acknowledged_in_time(lives: DataFrame) -> None:
    found = told(reports.compliance(lives, within_ms=15 * 60_000), "hour", "messages", "in_time", "share")
    assert found == [(0, 4, 1, 0.25), (1, 1, 0, 0.0)]


def test_rates_and_consumers_come_from_events(spark: SparkSession) -> None:
    def event(name: str, minutes: int, **more: Any) -> tuple[Any, ...]:
        known = {"event": name, "at": NOON + timedelta(minutes=minutes), "vhost": "/", "queue": "orders"}
        return tuple((dict.fromkeys(EVENTS) | known | more).values())

    events = spark.createDataFrame(
        [
            event("defined", 0, queue=None),
            event("published", 1),
            event("delivered", 2, consumer="a"),
            event("returned", 3, consumer="a", reason="nacked", held_ms=100),
            event("delivered", 61, consumer="a"),
            event("settled", 62, consumer="a", reason="acked", held_ms=300),
            event("settled", 63, consumer="b", reason="rejected", held_ms=50),
        ],
        spark_schema(EVENTS),
    )
    rates = told(reports.rates(events), "hour", "published", "delivered", "returned", "settled")
    assert rates == [(0, 1, 1, 1, 0), (1, 0, 1, 0, 2)]
    consumers = reports.consumers(events).orderBy("consumer").collect()
    assert [(row.consumer, row.acked, row.returned, row.failed, row.held_p50_ms) for row in consumers] == [
        ("a", 1, 1, 0, 200.0),
        ("b", 0, 0, 1, 50.0),
    ]
