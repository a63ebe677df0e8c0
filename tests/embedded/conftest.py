"""A broker in memory and one on files, both with a clock that stands still."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.client import queue as client_queue
from tests.protocols.rest.world import RestWorld

# Small enough for a test: the defaults reserve room for a busy broker.
SMALL: dict[str, Any] = {"spare_bytes": 0, "disk_free_min_bytes": 0, "on_failure": "raise"}


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of verbs that a client has too run on both."""
    if "place" in metafunc.fixturenames and metafunc.definition.get_closest_marker("everywhere"):
        metafunc.parametrize("place", ["here", "server"])


@pytest.fixture
def place() -> str:
    return "here"


@pytest.fixture
def broker(clock: leveret.ManualClock, place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A broker in memory: its own object, or a client of a server that has it."""
    with leveret.open(clock=clock) as opened:
        if place == "here":
            yield opened
            return
        monkeypatch.setattr(client_queue, "WORKER_WAIT_S", 0.05)
        with RestWorld(opened) as world, leveret.connect(world.url, token=world.token) as client:
            yield client


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


class Calls:
    """Runs functions in threads and gives what they return; waits for all at the end."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=64)

    def start(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> "Future[Any]":
        return self._pool.submit(function, *arguments, **options)

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def calls() -> Iterator[Calls]:
    running = Calls()
    yield running
    running.close()


@pytest.fixture
def waiting(broker: leveret.Broker) -> Callable[[str, int], None]:
    """Returns when so many receivers wait for a queue: only then is waking them a test."""

    def until(queue: str, count: int) -> None:
        while broker.queue(queue).stats().waiters < count:
            os.sched_yield()

    return until
