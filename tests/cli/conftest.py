"""Fixtures: one server for all tests of a file, asked by the commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.server.control import connect
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that is ready."""
    with ServerProcess(
        tmp_path_factory.mktemp("server"), "--spare-bytes", "0", "--disk-free-min-bytes", "0"
    ) as running:
        yield running


@pytest.fixture
def asked(server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerProcess:
    """The server that commands ask when they are told nothing else."""
    monkeypatch.setenv("LEVERET_URL", f"http://guest:guest@127.0.0.1:{server.ports['http']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("LEVERET_TOKEN", "LEVERET_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return server


def access_key(server: ServerProcess) -> dict[str, str]:
    """What AWS's own tools find in the environment when they may use the port for SQS."""
    with connect(str(server.data)) as operator:
        key = operator.call("keys.add", user="guest")
    return {"AWS_ACCESS_KEY_ID": key["id"], "AWS_SECRET_ACCESS_KEY": key["secret"]}
