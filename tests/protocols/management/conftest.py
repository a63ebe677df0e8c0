"""A real server, and the scene on it."""

from collections.abc import Iterator

import pytest

from tests.protocols.management.scene import Api, define
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with one of everything."""
    with ServerProcess(tmp_path_factory.mktemp("management")) as running:
        define(Api(running.ports["http"]))
        yield running


@pytest.fixture
def api(server: ServerProcess) -> Api:
    """Its API, as an administrator."""
    return Api(server.ports["http"])
