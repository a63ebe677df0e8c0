"""A broker in memory and one on files, both with a clock that stands still."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leveret

# Small enough for a test: the defaults reserve room for a busy broker.
SMALL: dict[str, Any] = {"spare_bytes": 0, "disk_free_min_bytes": 0, "on_failure": "raise"}


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


@pytest.fixture
def broker(clock: leveret.ManualClock) -> Iterator[leveret.Broker]:
    with leveret.open(clock=clock) as opened:
        yield opened


@pytest.fixture
def reopen(tmp_path: Path, clock: leveret.ManualClock) -> Iterator[Callable[[], leveret.Broker]]:
    """Opens the same directory again and again; closes what it opened before."""
    opened: list[leveret.Broker] = []

    def again() -> leveret.Broker:
        if opened:
            opened[-1].close()
        opened.append(leveret.open(str(tmp_path / "data"), clock=clock, **SMALL))
        return opened[-1]

    yield again
    if opened:
        opened[-1].close()
