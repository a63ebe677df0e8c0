"""History that goes: to the archive, or for good when a limit is reached, which everything that is read says."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.spark.wording import completeness
from leveret.storage.journal.store import Store
from tests.spark.conftest import Run
from tests.spark.test_store_archive import seal
from tests.waiting import wait_until

ROUNDS = 40


def used_up(place: str | Path, **options: Any) -> tuple[leveret.Broker, Store]:
    """A broker whose messages have all been settled, so that most segments have left its log."""
    broker = leveret.open(place, segment_bytes=4096, **options)
    queue, store = broker.queue("orders"), broker.runtime.store
    assert store is not None
    for _ in range(ROUNDS):
        queue.send(bytes(500))
        queue.receive()[0].ack()
    seal(broker)
    wait_until(lambda: store.oldest >= store.journal.segment - 1)
    return broker, store


@pytest.mark.parametrize("kind", ["files", "postgres"])
def test_the_archive_takes_history_over(run: Run, tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    place = str(tmp_path / "data") if kind == "files" else request.getfixturevalue("store_url")
    source, archive = {"path" if kind == "files" else "store": place}, tmp_path / "archive"
    broker, store = used_up(place)
    with broker:
        kept = store.kept()
        assert len(kept) > 1
        done = run("archive", "--remove-segments", out=archive, **source)
        assert done["removed_segments"] >= len(kept)
        assert (done["messages"], done["gone_segments"]) == (ROUNDS, 0)
        assert not store.kept().keys() & kept.keys()
        lives = run("lifecycle", archive=archive, out=tmp_path / "lives", **source)
    assert {row["outcome"]: row["messages"] for row in lives["outcomes"]} == {"acked": ROUNDS}
    assert (lives["gone_segments"], lives["complete_since"]) == (0, None)


def test_everything_that_is_read_says_where_history_begins(run: Run, tmp_path: Path) -> None:
    broker, store = used_up(tmp_path / "data", history_bytes=10_000)
    broker.close()
    figures = store.history.figures
    assert figures.dropped > 0
    assert figures.begins_ms is not None
    told = run("lifecycle", path=tmp_path / "data", out=tmp_path / "lives")
    assert told["gone_segments"] == figures.dropped
    assert datetime.fromisoformat(told["complete_since"]).timestamp() * 1000 == figures.begins_ms
    checked = run("check", path=tmp_path / "data")
    assert (checked["gone_segments"], checked["differing"]) == (figures.dropped, [])
    assert checked["history_since"] >= told["complete_since"]
    done = run("archive", path=tmp_path / "data", out=tmp_path / "archive")
    assert done["gone_segments"] == figures.dropped
    page = Path(run("report", path=tmp_path / "data", out=tmp_path / "report")["page"])
    sentence = f"{figures.dropped:,} segments before were removed."
    assert sentence in page.read_text()
    assert sentence in (page.parent / "summary.txt").read_text()


def test_history_of_which_nothing_is_known_is_told_so() -> None:
    assert completeness([]).startswith("No segment of history was removed")
