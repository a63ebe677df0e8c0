"""The examples at the end of each help text are run, in the order in which they stand there."""

import subprocess
from pathlib import Path

import pytest

from leveret.cli import main
from tests.cli.conftest import access_key
from tests.cli.test_page import environment
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def environ(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One in which `leveret` is this source, and asks the server."""
    home = tmp_path_factory.mktemp("home")
    return {**environment(home / "tools"), **addresses(server), "XDG_CONFIG_HOME": str(home), "COLUMNS": "80"}


def here(line: str, server: ServerProcess) -> str:
    """An example with the ports of a server in place of the usual ones."""
    return line.replace("localhost:5672", f"127.0.0.1:{server.port}").replace(
        "localhost:9324", f"127.0.0.1:{server.ports['sqs']}"
    )


def addresses(server: ServerProcess) -> dict[str, str]:
    """Where a server is, for commands, and for those who use its data directory."""
    return {
        "LEVERET_URL": f"http://guest:guest@127.0.0.1:{server.ports['http']}",
        "LEVERET_DATA": str(server.data),
        **access_key(server),
    }


def test_every_example_works(server: ServerProcess, environ: dict[str, str], tmp_path: Path) -> None:
    for line in (line for command in main.COMMANDS for line in command.examples):
        done = subprocess.run(
            ["bash", "-c", here(line, server)],
            env=environ,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, (line, done.stderr.decode())
        assert b"Traceback" not in done.stderr, (line, done.stderr.decode())


def test_help_shows_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in main.COMMANDS:
        with pytest.raises(SystemExit):
            main.main([command.name, "--help"])
        told = capsys.readouterr().out
        assert all(line in told for line in command.examples), command.name
