"""The demo, in short: its broker, its traffic, and what its events tell; the report has tests of its own."""

from collections import Counter
from pathlib import Path

from examples.demo import broker, traffic
from tests.pipeline.history import rows_of


def test_traffic_leaves_work_failures_and_dead_letters(tmp_path: Path) -> None:
    with broker.running(tmp_path) as url:
        traffic.run(url, seconds=3)
    events = Counter((row["queue"], row["event"], row["reason"]) for row in rows_of(tmp_path / "data"))
    assert all(events[name, "published", None] and events[name, "settled", "acked"] for name in traffic.KINDS)
    assert events["emails", "returned", "nacked"]
    rejected = sum(count for (_, _, reason), count in events.items() if reason == "rejected")
    assert 0 < rejected <= events[traffic.DEAD, "published", None]


def test_messages_have_tenants(tmp_path: Path) -> None:
    with broker.running(tmp_path) as url:
        traffic.run(url, seconds=0.2)
    found = {row["message_group_id"] for row in rows_of(tmp_path / "data", table="messages", queue="thumbnails")}
    assert found
    assert found <= set(traffic.TENANTS)
