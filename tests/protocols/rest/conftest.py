from collections.abc import Iterator

import pytest

import leveret
from leveret.security import logins
from tests.protocols.rest.world import RestWorld


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


@pytest.fixture
def world(clock: leveret.ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestWorld]:
    """A broker in memory behind HTTP, whose clock stands still."""
    monkeypatch.setattr(logins, "DELAYS_MS", (10, 10))
    with leveret.open(clock=clock) as broker, RestWorld(broker) as running:
        yield running


@pytest.fixture
def orders(world: RestWorld) -> leveret.Queue:
    """A queue made by REST."""
    world.ok("PUT /queues/orders", {"dead_letter": "dlq", "backoff": "none"})
    return world.broker.queue("orders")
