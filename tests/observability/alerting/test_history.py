"""What happened to alerts: bounded, in a file that outlives the process, and found again."""

import json
from pathlib import Path
from typing import Any

import pytest

from leveret.observability.alerting import service as histories
from leveret.observability.alerting.service import AlertHistory


def event(number: int, state: str = "firing", queue: str = "q", vhost: str = "/") -> dict[str, Any]:
    return {"at_ms": number, "event": state, "rule": "deep", "vhost": vhost, "queue": queue, "since_ms": 0, "value": 1}


def test_the_newest_events_come_first_also_after_a_restart(tmp_path: Path) -> None:
    history = AlertHistory(str(tmp_path))
    history.note([event(1), event(2)])
    history.note([event(3)])
    assert [row["at_ms"] for row in history.recent(2)] == [3, 2]
    assert [row["at_ms"] for row in AlertHistory(str(tmp_path)).recent()] == [3, 2, 1]
    assert (tmp_path / "alerts.jsonl").stat().st_mode & 0o077 == 0


def test_a_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "alerts.jsonl").write_text(json.dumps(event(1)) + "\n[]\n" + '{"at_ms": 2, "eve')
    assert [row["at_ms"] for row in AlertHistory(str(tmp_path)).recent()] == [1]


def test_files_do_not_grow_for_ever(tmp_path: Path) -> None:
    history = AlertHistory(str(tmp_path), file_bytes_max=1_000)
    for number in range(100):
        history.note([event(number)])
    assert all((tmp_path / name).stat().st_size <= 1_000 for name in ("alerts.jsonl", "alerts.1.jsonl"))
    kept = AlertHistory(str(tmp_path)).recent()
    assert [row["at_ms"] for row in kept] == list(range(99, 99 - len(kept), -1))


def test_memory_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "EVENTS_MAX", 10)
    history = AlertHistory()
    history.note(event(number) for number in range(50))
    assert [row["at_ms"] for row in history.recent(1_000)] == list(range(49, 39, -1))


def test_a_disk_that_takes_nothing_is_no_reason_to_stop(tmp_path: Path) -> None:
    history = AlertHistory(str(tmp_path / "missing"))
    history.note([event(1)])
    assert len(history.recent()) == 1


def test_events_of_other_virtual_hosts_are_left_out() -> None:
    history = AlertHistory()
    history.note([event(1), event(2, vhost="shop"), {"at_ms": 3, "event": "sent", "rule": "deep", "receiver": "ops"}])
    assert [row["at_ms"] for row in history.recent(10, frozenset(("shop",)))] == [3, 2]


def test_what_is_firing_and_who_was_told_is_found_again() -> None:
    history = AlertHistory()
    history.note([event(1, queue="a"), event(2, queue="b"), event(3, "resolved", "a"), event(4, queue="c")])
    history.note([{"at_ms": 5, "event": "sent", "rule": "deep", "receiver": "ops", "notice_ms": 4}])
    history.note([{**event(6, queue="d"), "since_ms": "long ago"}, {"event": "sent", "notice_ms": None}])
    last = {queue: (row["event"], row["fired_ms"]) for (_, _, queue), row in history.last_events().items()}
    assert last == {"a": ("resolved", 1), "b": ("firing", 2), "c": ("firing", 4)}
    assert history.told() == {("ops", "deep"): 4}
