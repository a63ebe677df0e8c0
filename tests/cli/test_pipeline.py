"""`leveret pipeline`: its help, what it prints, and what it says when something is missing."""

import json
import subprocess
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import pytest

import leveret
from leveret.cli import main, pipeline, submit
from leveret.core.errors import InvalidArgument
from leveret.spark.commands.context import Outcome, PrintedRows, settings
from leveret.spark.progress import Status, bar
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("job", [job.name for job in pipeline.JOBS])
def test_every_job_has_help_and_a_module(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["pipeline", job, "--help"])
    assert ended.value.code == 0
    assert "--master" in capsys.readouterr().out
    assert callable(import_module(f"leveret.spark.commands.{job}").run)


def test_the_command_line_starts_without_spark() -> None:
    program = "import sys, leveret.cli.main; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S).returncode == 0


def test_a_plan_forecasts_when_limits_are_reached(capsys: pytest.CaptureFixture[str]) -> None:
    line = "pipeline plan --messages-per-s 200 --protocol rest --growth-per-month 8 --cores 4 --disk-bytes 2e12"
    assert main.main(line.split()) == 0
    told = capsys.readouterr().out
    assert "all brokers, clients of REST" in told
    assert "8 % more each month:" in told
    assert "after 33.2 months" in told
    assert main.main([*line.split(), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["costs"]["cpu_us"]["value"] == 308
    assert [row["months"] for row in facts["forecast"]["limits"]] == pytest.approx([33.2, 25.7], abs=0.1)


def test_a_plan_needs_no_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["pipeline", "plan", "--messages-per-s", "1000", "--cost", "cpu_us=3", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["workload"]["messages_per_s"] == 1000
    assert {row["figure"] for row in facts["figures"]} >= {"storage", "memory", "brokers"}
    assert main.main(["pipeline", "plan", "--messages-per-s", "1000"]) == 0
    assert "assumed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("plan", "give --messages-per-s"),
        ("plan --messages-per-s 5 --cost cpu", "NAME=NUMBER"),
        ("plan --messages-per-s -5", "messages_per_s"),
        ("plan --messages-per-s 5 --growth-per-month 0", "growth_per_month"),
        ("plan --messages-per-s 5 --cores 4", "give --growth-per-month"),
        ("plan --messages-per-s 5 --growth-per-month 5 --cores 0", "cores=0"),
        ("archive --out x", "name a data directory"),
        ("generate --messages 5", "give --out"),
        ("generate --messages 0 --out x", "messages=0"),
        ("replay --path x", "--checkpoint"),
        ("redrive --url http://127.0.0.1:1 --queue x --dry-run", "cannot connect"),
        ("generate --messages 5 --publish http://127.0.0.1:1", "cannot connect"),
        ("replay --path x --dry-run --rate 0", "rate"),
        ("replay --path x --dry-run --to-queue a --to-exchange b", "one of them"),
    ],
)
def test_wrong_arguments_are_refused_before_spark_is_started(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["pipeline", *line.split()]) == 1
    assert words in capsys.readouterr().err


def test_a_missing_package_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("pyspark", "leveret.spark"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(leveret, "pipeline", raising=False)  # what was imported before is there again afterwards
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for line in ("archive --path x --out y", "plan --path x"):
        assert main.main(["pipeline", *line.split()]) == 1
        assert "pyspark is not installed: `pip install 'leveret[pipeline]'` brings it" in capsys.readouterr().err


def test_a_script_for_spark_submit_runs_beside_its_neighbours() -> None:
    done = subprocess.run([sys.executable, submit.__file__, "plan", "--help"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_missing_java_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leveret.open(tmp_path / "data").close()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main.main(["pipeline", "archive", "--path", str(tmp_path / "data"), "--out", str(tmp_path / "out")]) == 1
    assert "apt-get install" in capsys.readouterr().err


def test_settings_of_spark_are_pairs() -> None:
    assert settings(["spark.x=1=2"]) == {"spark.x": "1=2"}
    with pytest.raises(InvalidArgument, match="NAME=VALUE"):
        settings(["spark.x"])


def test_an_outcome_is_printed_as_text_or_json() -> None:
    outcome = Outcome({"files": 3}, (PrintedRows("targets", ("name",), [{"name": "a\x1b"}]),), "done")
    assert pipeline.as_text(outcome) == "files  3\n\ntargets:\nname\na\\x1b\n\ndone"
    assert pipeline.everything(outcome) == {"files": 3, "targets": [{"name": "a\x1b"}]}


class Terminal:
    """A stream that is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_progress_is_one_line_on_a_terminal() -> None:
    terminal = Terminal()
    Status(terminal).share(1, 2)  # type: ignore[arg-type]
    assert terminal.text.startswith("\r\x1b[K[============            ]")
    assert "\n" not in terminal.text
    assert bar(0, 0).strip("[] ") == ""


def test_spark_submit_brings_its_own_master(monkeypatch: pytest.MonkeyPatch) -> None:
    from leveret.spark import session
    from leveret.spark.commands.context import SUBMITTED, Context

    class Session:
        def stop(self) -> None:
            pass

    asked: list[str | None] = []

    def made(master: str | None, log: str, **options: object) -> Session:
        asked.append(master)
        return Session()

    monkeypatch.setattr(session, "session", made)
    for environ in ({}, {SUBMITTED: "1"}):
        given = Namespace(master=None, remote=None, conf=[], log="x")
        with Context(given, environ, sys.stderr).spark():
            pass
    assert asked == ["local[*]", None]
