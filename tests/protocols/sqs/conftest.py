import uuid
from collections.abc import Iterator

import pytest

from tests.protocols.sqs.server import Server, running
from tests.protocols.sqs.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """The service without signatures."""
    made = World()
    yield made
    made.end()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server for all tests: names keep them apart."""
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"queue-{uuid.uuid4().hex[:12]}"
