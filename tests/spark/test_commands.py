"""The jobs as their commands run them, on the session of the tests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import leveret
from leveret.cli import main
from leveret.cli.target import RemoteServer
from leveret.storage.disk import Disk
from leveret.storage.journal.files.meta import read_meta
from tests.server.control_world import Served
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.spark.conftest import Run
from tests.spark.history import small_history
from tests.spark.test_store_archive import seal
from tests.waiting import wait_until

README = (ROOT / "README.md").read_text()


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
    assert {row["basis"] for row in planned["figures"]} == {"observed", "measured", "assumed"}


def test_a_journal_is_searched_for_what_would_be_published_again(run: Run, tmp_path: Path) -> None:
    small_history(tmp_path)
    found = run("replay", "--dry-run", path=tmp_path, where="headers['number'] >= 2", set="routing_key = 'again'")
    assert found["would publish"] == 3
    assert found["targets"] == [{"exchange": "", "routing_key": "again", "messages": 3}]
    assert [row["body"] for row in found["sample"]] == ["order 2", "order 3", "order 4"]


def test_a_journal_whose_only_segment_is_open_is_not_archived_yet(run: Run, tmp_path: Path) -> None:
    small_history(tmp_path / "data")
    found = run("archive", path=tmp_path / "data", out=tmp_path / "archive")
    assert (found["segments"], found["files"], found["generation"]) == (0, 0, 1)


def test_a_journal_in_postgresql_is_archived_by_the_name_of_its_store(
    run: Run, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with leveret.open(store_url) as broker:
        broker.queue("orders").send_many(["a", "b", "c"])
        seal(broker)
    assert run("archive", store=store_url, out=tmp_path / "archive")["messages"] == 3
    assert main.main(["pipeline", "archive", "--path", str(tmp_path), "--out", str(tmp_path / "archive")]) == 1
    assert "give --store" in capsys.readouterr().err


def test_a_job_on_a_store_in_postgresql_archives_it_first(
    run: Run, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with leveret.open(store_url) as broker:
        broker.queue("orders").send_many(["a", "b", "c"])
        seal(broker)
    flags = {"store": store_url, "archive": tmp_path / "archive", "out": tmp_path / "lives"}
    assert run("lifecycle", **flags)["messages"] == 3
    for words, told in (([], "give --path, or --store"), (["--store", store_url], "name its directory by --archive")):
        assert main.main(["pipeline", "report", "--out", str(tmp_path / "report"), *words]) == 1
        assert told in capsys.readouterr().err


def test_what_a_quiet_server_has_is_archived_once(run: Run, tmp_path: Path) -> None:
    served = Served(tmp_path / "data")
    try:
        orders = served.broker.queue("orders")
        orders.send_many(["a", "b", "c"])
        flags = {"path": tmp_path / "data", "out": tmp_path / "archive"}
        assert run("archive", "--no-seal", **flags)["messages"] == 0
        assert run("archive", **flags)["messages"] == 3
        assert run("archive", **flags)["segments"] == 0
        for message in orders.receive(3):
            message.ack()
        orders.send("d")
        assert run("archive", **flags)["messages"] == 1
        lives = run("lifecycle", path=tmp_path / "archive", out=tmp_path / "lives")
    finally:
        served.stop()
    assert lives["messages"] == 4
    assert {row["outcome"]: row["messages"] for row in lives["outcomes"]} == {"acked": 3, "open": 1}


def test_what_was_consumed_on_a_default_server_is_archived(run: Run, tmp_path: Path) -> None:
    flags = {"path": tmp_path / "data", "out": tmp_path / "archive"}
    with ServerProcess(tmp_path) as server, server.client() as client:
        orders = client.queue("orders")
        for _ in range(20):
            orders.send_many(["order"] * 100)
        for _ in range(199):
            orders.ack_many(orders.receive(10))
        RemoteServer(client).call("journal.seal")
        wait_until(lambda: read_meta(Disk(server.data)).oldest > 1)
        assert run("archive", **flags)["messages"] == 2_000
    lives = run("lifecycle", path=server.data, archive=tmp_path / "archive", out=tmp_path / "lives")
    assert {row["outcome"]: row["messages"] for row in lives["outcomes"]} == {"acked": 1_990, "open": 10}


def readme_commands() -> list[list[str]]:
    """The jobs of the README, with their flags."""
    return [shlex.split(line, comments=True)[2:] for line in re.findall("^ +leveret pipeline .*", README, re.M)]


def test_what_the_readme_does_with_spark_works(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_history(tmp_path / "data")
    commands = readme_commands()
    assert {job for job, *_ in commands} == {"archive", "report", "check", "replay", "plan"}
    # Spark runs elsewhere already: it would look for them there.
    places = {name: str(tmp_path / name) for name in ("data", "archive", "report")}
    for job, *flags in commands:
        run(job, *(places.get(flag, flag) for flag in flags))
    assert "<svg" in (tmp_path / "report" / "index.html").read_text()
    (block,) = re.findall("^<!-- run with Spark -->\n```python\n(.*?)^```", README, re.M | re.S)
    exec(block.replace('"data"', repr(places["data"])), {})
    assert "published" in capsys.readouterr().out


def test_what_cannot_be_read_is_refused_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, told in (
        (["--path", "nowhere"], "nowhere"),
        (["--path", str(tmp_path), "--since", "then"], "since='then'"),
    ):
        assert main.main(["pipeline", "report", "--out", str(tmp_path / "report"), *flags]) == 1
        assert told in capsys.readouterr().err


def test_a_failure_of_spark_is_one_sentence(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "seg-00000000000000000001.log").write_bytes(b"nothing like a segment" * 10)
    assert main.main(["pipeline", "lifecycle", "--path", str(tmp_path), "--out", str(tmp_path / "lives")]) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert "is damaged at offset 0" in told
