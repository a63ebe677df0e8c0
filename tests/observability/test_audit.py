"""The audit log: bounded fields, counted refusals, files that do not push each other out."""

import json
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.observability.audit import (
    FIELD_BYTES_MAX,
    KEYS_MAX,
    OTHERS,
    PENDING_MAX,
    SUMMARY_MS,
    Audit,
    clipped,
    kind_of,
)
from tests.waiting import wait_until

BYTES_MAX = 65_536


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


def rows(directory: Path, name: str) -> list[dict[str, Any]]:
    """What the files of one kind have, the oldest row first."""
    texts = [path.read_text() for end in (".1", "") if (path := directory / f"{name}{end}.jsonl").exists()]
    return [json.loads(line) for line in "".join(texts).splitlines()]


def refuse(
    audit: Audit, by: str = "mallory", operation: str = "DELETE /api/vhosts/{vhost}", cause: str = "401"
) -> None:
    audit.refused(by, f"DELETE /api/vhosts/{'x' * 7_000}", "Not administrator user", operation, cause, peer="192.0.2.1")


@pytest.mark.parametrize(
    "text",
    ["x" * 10_000, "\x00" * 10_000, '"' * 10_000, "\N{RABBIT FACE}" * 10_000, "\ud800" * 300, "é" * 100 + "x" * 500],
)
def test_a_long_field_is_cut(text: str) -> None:
    cut = clipped(text)
    assert isinstance(cut, str)
    assert len(json.dumps(cut)) - 2 <= FIELD_BYTES_MAX
    assert cut.endswith("...")
    assert text.startswith(cut.removesuffix("..."))


@pytest.mark.parametrize("value", ["", "short", "x" * FIELD_BYTES_MAX, "兎" * 85, 7, None, True, 0.5])
def test_a_field_that_fits_stays_as_it_is(value: object) -> None:
    assert clipped(value) == value


def test_every_field_of_a_row_is_bounded(clock: leveret.ManualClock, tmp_path: Path) -> None:
    audit = Audit(clock, str(tmp_path))
    long = "x" * 100_000
    audit.note(long, long, long, peer=long, path=long)
    audit.refused(long, long, long, "operation", "cause", filter={"text": long})
    audit.changed(long, long, queue=long)
    audit.close()
    assert {path.name for path in tmp_path.iterdir()} == {
        "audit.jsonl",
        "audit-clients.jsonl",
        "audit-refusals.jsonl",
    }
    assert max(path.stat().st_size for path in tmp_path.iterdir()) < 6 * FIELD_BYTES_MAX


def test_refusals_are_counted(clock: leveret.ManualClock, tmp_path: Path) -> None:
    audit = Audit(clock, str(tmp_path))
    for _ in range(1_000):
        refuse(audit)
    clock.advance(SUMMARY_MS / 1_000 - 1)
    audit.summarise()
    assert [row.get("count") for row in audit.recent()] == [None], "only the first one"
    clock.advance(1)
    audit.summarise()
    summary, first = audit.recent()
    assert (summary["count"], summary["at_ms"] - summary["since_ms"]) == (999, SUMMARY_MS)
    assert (summary["by"], summary["outcome"], summary["peer"]) == (first["by"], first["outcome"], first["peer"])
    refuse(audit)
    clock.advance(60)
    audit.summarise()
    assert audit.recent(1)[0]["count"] == 1, "it goes on: no first one again"
    clock.advance(60)
    audit.summarise()
    refuse(audit)
    assert "count" not in audit.recent(1)[0], "a minute without any: it is new"
    audit.close()
    assert len(rows(tmp_path, "audit-refusals")) == 4


def test_causes_operations_and_users_are_counted_apart(clock: leveret.ManualClock) -> None:
    audit = Audit(clock)
    for _ in range(3):
        refuse(audit)
        refuse(audit, by="alice")
        refuse(audit, operation="PUT /api/users/{user}")
        refuse(audit, cause="404")
    assert len(audit.recent()) == 4


def test_the_table_of_refusals_is_bounded(clock: leveret.ManualClock) -> None:
    audit = Audit(clock)
    for number in range(KEYS_MAX + 100):
        refuse(audit, by=f"user-{number}")
    assert len(audit.recent(1_000)) == KEYS_MAX
    audit.summarise(all=True)
    newest = audit.recent(1_000)
    assert len(newest) == KEYS_MAX + 1
    assert (newest[0]["by"], newest[0]["count"]) == (OTHERS, 100)


def test_refusals_and_clients_push_out_no_change_of_an_administrator(
    clock: leveret.ManualClock, tmp_path: Path
) -> None:
    audit = Audit(clock, str(tmp_path), bytes_max=BYTES_MAX)
    audit.note("guest", "PUT /api/users/ada")
    audit.changed("app", "queue.declare", queue="first")
    for number in range(2_000):
        refuse(audit, by=f"user-{number}")
        clock.advance(1)
        audit.summarise()
    audit.close()
    assert [row["act"] for row in rows(tmp_path, "audit")] == ["PUT /api/users/ada"]
    assert [row["queue"] for row in rows(tmp_path, "audit-clients")] == ["first"]
    assert (tmp_path / "audit-refusals.1.jsonl").exists()
    assert all(path.stat().st_size <= BYTES_MAX for path in tmp_path.iterdir())
    again = Audit(clock, str(tmp_path))
    assert [row["act"] for row in again.recent(kind="administration")] == ["PUT /api/users/ada"]


def test_changes_of_clients_are_written_together(clock: leveret.ManualClock, tmp_path: Path) -> None:
    audit = Audit(clock, str(tmp_path))
    for number in range(PENDING_MAX - 1):
        audit.changed("app", "queue.declare", queue=f"q{number}")
    assert not list(tmp_path.iterdir())
    audit.changed("app", "queue.declare", queue="last")
    assert len(rows(tmp_path, "audit-clients")) == PENDING_MAX
    audit.changed("app", "queue.declare", queue="after")
    audit.note("guest", "PUT /api/users/ada")
    assert rows(tmp_path, "audit-clients")[-1]["queue"] == "after"
    assert len(rows(tmp_path, "audit")) == 1, "before it is answered"
    audit.close()


def test_the_thread_writes_what_waits(clock: leveret.ManualClock, tmp_path: Path) -> None:
    audit = Audit(clock, str(tmp_path))
    audit.start()
    audit.changed("app", "queue.declare", queue="orders")
    wait_until(lambda: rows(tmp_path, "audit-clients"))
    audit.changed("app", "queue.declare", queue="last")
    audit.close()
    assert [row["queue"] for row in rows(tmp_path, "audit-clients")] == ["orders", "last"]


def test_rows_of_all_kinds_are_listed_in_their_order(clock: leveret.ManualClock) -> None:
    audit = Audit(clock)
    audit.note("guest", "first")
    audit.changed("app", "second")
    audit.refused("app", "third", "no", "third", "AccessRefused")
    audit.note("guest", "fourth")
    assert [(row["act"], row["kind"]) for row in audit.recent()] == [
        ("fourth", "administration"),
        ("third", "refusals"),
        ("second", "clients"),
        ("first", "administration"),
    ]
    assert [row["act"] for row in audit.recent(2)] == ["fourth", "third"]
    assert [row["act"] for row in audit.recent(kind="administration")] == ["fourth", "first"]


def test_only_administrators_fill_the_first_file() -> None:
    assert kind_of(frozenset(("administrator", "monitoring"))) == "administration"
    assert kind_of(frozenset(("management", "policymaker"))) == "clients"
