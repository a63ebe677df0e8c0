"""What the tests of the wire get: a world in memory, or each of the brokers that raw clients can talk to.

RabbitMQ is talked to as well when LEVERET_TEST_RABBITMQ names it, as HOST:PORT: so the tables were checked.
"""

import os
from collections.abc import Iterator

import pytest

from tests.cluster.proxy_world import FrontWorld
from tests.protocols.amqp.client import Client, World
from tests.protocols.amqp.targets import MemoryTarget, SocketTarget, Target
from tests.server_process import ServerProcess

RABBITMQ = os.environ.get("LEVERET_TEST_RABBITMQ")
TARGETS = ["rabbitmq"] if RABBITMQ else ["memory", "server", "cluster"]


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
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SocketTarget | type[World]]:
    """A broker for all tests of a module, or what each of them makes its own of, in memory."""
    if request.param == "server":
        with ServerProcess(tmp_path_factory.mktemp("served")) as server:
            yield SocketTarget("127.0.0.1", server.port)
    elif RABBITMQ:
        host, port = RABBITMQ.rsplit(":", 1)
        yield SocketTarget(host, int(port), older=True)
    else:
        yield FrontWorld if request.param == "cluster" else World


@pytest.fixture
def target(place: SocketTarget | type[World]) -> Iterator[Target]:
    """Each broker in turn."""
    if isinstance(place, SocketTarget):
        yield place
        place.clear()
    else:
        world = place()
        yield MemoryTarget(world)
        world.close()
