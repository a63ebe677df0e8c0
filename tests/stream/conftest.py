from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.journal.disk import Disk
from tests.stream.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A stream of small segments on a real disk."""
    world = World(Disk(tmp_path), segment_bytes=1 << 10, sync="never")
    yield world
    world.log.abandon()
