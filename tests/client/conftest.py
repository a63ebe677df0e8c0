from collections.abc import Iterator

import pytest

import leveret
from leveret.client import session
from tests.client.flaky import Flaky
from tests.protocols.rest.world import RestWorld


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[RestWorld]:
    """A broker in memory behind HTTP."""
    monkeypatch.setattr(session, "BASE_S", 0.001)
    with leveret.open() as broker, RestWorld(broker) as running:
        yield running


@pytest.fixture
def client(world: RestWorld) -> Iterator[leveret.RemoteBroker]:
    with leveret.connect(world.url, token=world.token) as connected:
        yield connected


@pytest.fixture
def flaky(world: RestWorld) -> Iterator[Flaky]:
    """A way to it on which answers get lost."""
    with Flaky(world.port) as running:
        yield running


@pytest.fixture
def unsure(world: RestWorld, flaky: Flaky) -> Iterator[leveret.RemoteBroker]:
    """A client that goes this way."""
    with leveret.connect(flaky.url, token=world.token) as connected:
        yield connected
