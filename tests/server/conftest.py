"""Fixtures: a real server process, and certificates."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.certificates import Authority
from tests.server_process import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that is ready."""
    with ServerProcess(tmp_path) as running:
        yield running


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Signs certificates."""
    return Authority(tmp_path)
