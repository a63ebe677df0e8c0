"""A busy server, and the scrapes of it that most tests look at."""

from collections.abc import Iterator

import pytest

from tests.metrics.scene import Scrape, busy, scrape
from tests.server_process import ServerProcess


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("metrics")
    with ServerProcess(folder, "--archive-dir", str(folder / "archive")) as running, busy(running):
        yield running


@pytest.fixture(scope="package")
def whole(server: ServerProcess) -> Scrape:
    return scrape(server)


@pytest.fixture(scope="package")
def per_object(server: ServerProcess) -> Scrape:
    return scrape(server, "/metrics/per-object")
