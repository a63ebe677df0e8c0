"""The broker that a test gets: in memory, or in a directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[World]:
    """A world that can be restarted."""
    world = World(tmp_path)
    yield world
    world.close()
