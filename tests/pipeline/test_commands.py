"""The jobs as their commands run them, on the session of the tests."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leveret.cli import main
from leveret.pipeline.commands.context import Context
from leveret.pipeline.progress import Status
from tests.pipeline.history import small_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., Any]


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a job and give what it prints as JSON."""

    @contextmanager
    def session(self: Context) -> Iterator[tuple[SparkSession, Status]]:
        yield spark, Status(io.StringIO())

    def call(job: str, *switches: str, **flags: object) -> Any:
        words = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        code = main.main(["pipeline", job, *switches, *words, "--json"])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return json.loads(printed.out)

    monkeypatch.setattr(Context, "spark", session)
    return call


def test_a_workload_is_generated_and_then_told_about(run: Run, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    made = run("generate", messages=2_000, queues=5, days=0.1, out=archive)
    assert made["events"] > 5_000
    lives = run("lifecycle", path=archive, out=tmp_path / "lives", queue="queue-00001")
    assert 0 < lives["messages"] < 2_000
    assert lives["outcomes"][0]["outcome"] == "acked"
    planned = run("plan", path=archive, retention_days=3)
    assert planned["workload"]["messages_per_s"] == pytest.approx(2_000 / 8_640, rel=0.1)
    assert planned["workload"]["retention_days"] == 3


def test_a_journal_is_searched_for_what_would_be_published_again(run: Run, tmp_path: Path) -> None:
    small_history(tmp_path)
    found = run("replay", "--dry-run", path=tmp_path, where="headers['number'] >= 2", set="routing_key = 'again'")
    assert found["would publish"] == 3
    assert found["targets"] == [{"exchange": "", "routing_key": "again", "messages": 3}]
    assert [row["body"] for row in found["sample"]] == ["order 2", "order 3", "order 4"]


def test_a_journal_whose_only_segment_is_open_is_not_archived_yet(run: Run, tmp_path: Path) -> None:
    small_history(tmp_path / "data")
    found = run("archive", path=tmp_path / "data", out=tmp_path / "archive")
    assert (found["segments"], found["files"], found["generation"]) == (0, 0, 0)
