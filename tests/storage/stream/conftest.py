from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.storage.disk import Disk
from tests.storage.stream.tables import TablesWorld
from tests.storage.stream.world import World


@pytest.fixture(params=["files", "tables"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A stream of small segments on a real disk, or in tables."""
    options = {"segment_bytes": 1 << 10, "sync": "never"}
    world = TablesWorld(**options) if request.param == "tables" else World(Disk(tmp_path), **options)
    yield world
    world.log.abandon()
