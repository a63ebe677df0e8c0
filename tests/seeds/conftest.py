"""The worlds of the scenarios: a broker in memory, one on files, and one that restarts and crashes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import leveret
from tests.embedded.conftest import SMALL, Calls


class Home:
    """A directory with a broker on it."""

    def __init__(self, path: Path, clock: leveret.ManualClock) -> None:
        self.path = path
        self._clock = clock
        self.broker = self._open()

    def _open(self) -> leveret.Broker:
        return leveret.open(str(self.path), clock=self._clock, **SMALL)

    def restart(self) -> leveret.Broker:
        """Close in order and open again."""
        self.broker.close()
        self.broker = self._open()
        return self.broker

    def crash(self) -> leveret.Broker:
        """Lose what is not on disk, as a killed process does, and open again."""
        runtime = self.broker.runtime
        assert runtime.store is not None
        runtime.store.abandon()
        runtime.store = None  # the directory has another owner from now on
        return self.restart()


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


@pytest.fixture
def home(tmp_path: Path, clock: leveret.ManualClock) -> Iterator[Home]:
    world = Home(tmp_path / "data", clock)
    yield world
    world.broker.close()


@pytest.fixture(params=["memory", "files"])
def broker(request: pytest.FixtureRequest, clock: leveret.ManualClock) -> Iterator[leveret.Broker]:
    if request.param == "files":
        yield request.getfixturevalue("home").broker
        return
    with leveret.open(clock=clock) as opened:
        yield opened


@pytest.fixture
def calls() -> Iterator[Calls]:
    running = Calls()
    yield running
    running.close()


@pytest.fixture
def waiting() -> Callable[[leveret.Queue, int], None]:
    """Returns when so many receivers wait for a queue: only then is waking them a test."""

    def until(queue: leveret.Queue, count: int) -> None:
        while queue.stats().waiters < count:
            os.sched_yield()

    return until


def bodies(messages: list[leveret.Message]) -> list[object]:
    """What messages say, in their order."""
    return [message.body for message in messages]


def settled(queue: leveret.Queue) -> bool:
    """Whether a queue holds nothing, neither to take nor taken."""
    stats = queue.stats()
    return stats.ready == stats.leased == stats.scheduled == stats.backing_off == 0
