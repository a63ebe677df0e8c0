"""The demo, in short: its broker, its traffic, and what its events tell; the report has tests of its own."""

from collections import Counter
from itertools import count
from pathlib import Path

from examples.demo import broker, traffic
from tests.spark.history import rows_of
from tests.waiting import wait_until

Events = Counter[tuple[str, str, str | None]]


def told(folder: Path) -> Events:
    """How often what happened where, of all that the broker has or has handed over."""
    handed = folder / "handed"
    handed.mkdir(exist_ok=True)
    rows = rows_of(folder / "data", archive=str(handed))
    return Counter((row["queue"], row["event"], row["reason"]) for row in rows)


def rejected(events: Events) -> int:
    return sum(times for (_, event, reason), times in events.items() if (event, reason) == ("settled", "rejected"))


def is_complete(events: Events) -> bool:
    """Whether something of everything has happened."""
    worked = all(events[name, "published", None] and events[name, "settled", "acked"] for name in traffic.KINDS)
    return worked and events["emails", "returned", "nacked"] > 0 and rejected(events) > 0


def test_traffic_leaves_work_failures_and_dead_letters(tmp_path: Path) -> None:
    seeds = count(1)

    def events() -> Events | None:
        """What happened, if it is enough: a slow machine does less in three seconds."""
        with broker.running(tmp_path) as url:
            traffic.run(url, seconds=3, seed=next(seeds))
        return found if is_complete(found := told(tmp_path)) else None

    found = wait_until(events)
    assert rejected(found) <= found[traffic.DEAD, "published", None]


def test_messages_have_tenants(tmp_path: Path) -> None:
    with broker.running(tmp_path) as url:
        traffic.run(url, seconds=0.2)
    found = {row["message_group_id"] for row in rows_of(tmp_path / "data", table="messages", queue="thumbnails")}
    assert found
    assert found <= set(traffic.TENANTS)
