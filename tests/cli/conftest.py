"""Fixtures: one server for all tests of a file, asked by the commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
