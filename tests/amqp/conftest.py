from collections.abc import Iterator

import pytest

from tests.amqp.client import Client, World


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
