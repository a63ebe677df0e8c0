"""The examples at the end of each help text are run, in the order in which they stand there."""

from pathlib import Path

import pytest

from leveret.cli import main
from tests.cli.conftest import access_key
from tests.cli.shell import Shell
from tests.server_process import ServerProcess


def here(line: str, server: ServerProcess) -> str:
    """An example with the ports of a server in place of the usual ones."""
    return line.replace("localhost:5672", f"127.0.0.1:{server.port}").replace(
        "localhost:9324", f"127.0.0.1:{server.ports['sqs']}"
    )


def test_every_example_works(asked: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**access_key(asked), "LEVERET_DATA": str(asked.data), "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    shell = Shell(tmp_path, monkeypatch)
    for line in (line for name in main.COMMANDS for line in main.command(name).examples):
        code, told = shell.run(here(line, asked))
        assert code == 0, (line, told)
        assert "Traceback" not in told, (line, told)


def test_help_shows_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for name in main.COMMANDS:
        with pytest.raises(SystemExit):
            main.main([name, "--help"])
        told = capsys.readouterr().out
        assert all(line in told for line in main.command(name).examples), name
