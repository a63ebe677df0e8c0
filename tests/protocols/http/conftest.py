from collections.abc import Iterator

import pytest

from leveret.protocols.http import server
from tests.protocols.http.world import Client, World


@pytest.fixture(autouse=True)
def quick_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the connections often, so that tests of time limits need not wait."""
    monkeypatch.setattr(server, "SWEEP_S", 0.02)


@pytest.fixture
def world() -> Iterator[World]:
    """A server that tells what it was asked."""
    with World() as running:
        yield running


@pytest.fixture
def client(world: World) -> Client:
    """A client of it."""
    return world.connect()
