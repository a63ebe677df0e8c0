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


@pytest.fixture(scope="module", params=TARGETS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SocketTarget | None]:
    """A broker for all tests of a module; None: each has its own, in memory."""
    if request.param == "server":
        with ServerProcess(tmp_path_factory.mktemp("served")) as server:
            yield SocketTarget("127.0.0.1", server.port)
    elif RABBITMQ:
        host, port = RABBITMQ.rsplit(":", 1)
        yield SocketTarget(host, int(port), older=True)
    else:
        yield None


@pytest.fixture
def target(place: SocketTarget | None, request: pytest.FixtureRequest) -> Iterator[Target]:
    """Each broker in turn."""
    found: Target = place or MemoryTarget(request.getfixturevalue("world"))
    yield found
    found.clear()
