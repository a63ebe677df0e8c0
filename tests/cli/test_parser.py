"""What the command line says about itself, and about what somebody mistyped."""

import os
import re
from pathlib import Path

import pytest

from leveret.cli import main
from leveret.server.settings import OPTIONS, flag
from leveret.storage.disk import LOCK_NAME
from leveret.version import version

COLUMNS = 80


def refused(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said about a line that is wrong."""
    with pytest.raises(SystemExit) as ended:
        main.main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("quues list", "leveret: there is no command 'quues': did you mean queues?\n"),
        ("frobnicate", "leveret: there is no command 'frobnicate': see `leveret --help`\n"),
        ("queues lst", "leveret queues: there is no action 'lst': did you mean list?\n"),
        ("queues list --sort nme", "leveret queues list: --sort cannot be 'nme': did you mean name?\n"),
        ("serve --amqp-prt 5", "leveret serve: it has no --amqp-prt: did you mean --amqp-port?\n"),
        ("serve 5672", "leveret serve: it has no 5672: see `leveret serve --help`\n"),
    ],
)
def test_a_slip_is_told_in_one_line(line: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(*line.split(), capsys=capsys) == told


@pytest.mark.parametrize("line", ["", "queues", "users", "pipeline"])
def test_whoever_says_nothing_gets_the_help(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = line.split()
    told = refused(*words, capsys=capsys)
    with pytest.raises(SystemExit):
        main.main([*words, "--help"])
    assert told == capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert not ended.value.code
    assert capsys.readouterr().out == f"leveret {version()}\n"


def test_the_help_of_serve_has_every_option_once_and_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    with pytest.raises(SystemExit):
        main.main(["serve", "--help"])
    told = capsys.readouterr().out
    shown = sorted(re.findall(r"^  (--[a-z-]+)", told, re.MULTILINE))
    assert shown == sorted(["--config", *(flag(name) for name in OPTIONS if not OPTIONS[name].metadata["secret"])])
    assert max(map(len, told.splitlines())) <= COLUMNS


def test_the_directory_of_a_node_is_not_made_a_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / LOCK_NAME).touch()  # what a node leaves that is not running: its messages are in PostgreSQL
    assert main.main(["users", "list", "--data", str(tmp_path)]) == 1
    assert "start it, or name one by --url" in capsys.readouterr().err
    assert os.listdir(tmp_path) == [LOCK_NAME]
