"""What the tests of the wire get: a world in memory, or each of the brokers that raw clients can talk to.

RabbitMQ is talked to as well when LEVERET_TEST_RABBITMQ names it, as HOST:PORT: so the tables were checked.
"""

import os
from collections.abc import Iterator

import pytest

from tests.amqp.client import Client, World
from tests.amqp.targets import MemoryTarget, SocketTarget, Target
from tests.server_process import ServerProcess

RABBITMQ = os.environ.get("LEVERET_TEST_RABBITMQ")
TARGETS = ["rabbitmq"] if RABBITMQ else ["memory", "server"]


@pytest.fixture
def world() -> Iterator[World]:
    """A hub on a broker in memory."""
    made = World()
    yield made
    made.close()


@pytest.fixture
def client(world: World) -> Client:
    """A client with an open channel."""
    return world.client()


@pytest.fixture
def memory(world: World) -> MemoryTarget:
    return MemoryTarget(world)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server process for all tests of a module."""
    with ServerProcess(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def server(served: ServerProcess) -> SocketTarget:
    return SocketTarget("127.0.0.1", served.port)


@pytest.fixture
def rabbitmq() -> SocketTarget:
    assert RABBITMQ is not None
    host, port = RABBITMQ.rsplit(":", 1)
    return SocketTarget(host, int(port), older=True)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Each broker in turn."""
    found: Target = request.getfixturevalue(request.param)
    yield found
    found.clear()
