"""Brokers on directories that misbehave: full, failing, killed."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.runtime import storage
from tests.storage.journal.world import FaultyDisk
from tests.waiting import PATIENCE_S


class Life:
    """Opens brokers on one directory, each on a disk that fails as told; closes them in the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = leveret.ManualClock()
        self.opened: list[leveret.Broker] = []
        self.disks: list[FaultyDisk] = []

    def disk_of(self, path: str) -> FaultyDisk:
        self.disks.append(FaultyDisk(Path(path)))
        return self.disks[-1]

    @property
    def disk(self) -> FaultyDisk:
        return self.disks[-1]

    def open(self, **options: Any) -> leveret.Broker:
        small = {"spare_bytes": 0, "disk_free_min_bytes": 0, "on_failure": "raise", "clock": self.clock}
        self.opened.append(leveret.open(str(self.path), **{**small, **options}))
        return self.opened[-1]

    def kill(self) -> None:
        """Let go of the directory as a killed process does."""
        broker = self.opened.pop()
        store = broker.runtime.store
        assert store is not None
        broker.runtime.housekeeper.stop()  # it would wait for a writer that is gone
        store.abandon()
        broker.runtime.store = None  # its directory may have another owner now
        broker.close()

    def until(self, condition: Callable[[], object]) -> None:
        """Let time pass until something is so; the limit of the test ends a wait in vain."""
        while not condition():
            self.clock.advance(1)
            os.sched_yield()

    def files(self, pattern: str = "*") -> list[str]:
        return sorted(path.name for path in self.path.rglob(pattern) if path.is_file())


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    living = Life(tmp_path / "data")
    monkeypatch.setattr(storage, "Disk", living.disk_of)
    # Whoever stood still for so long would find a sync, or the mark at the end of the log, that he did not ask for.
    monkeypatch.setattr("leveret.storage.journal.commit.IDLE_SECONDS", PATIENCE_S)
    yield living
    for broker in living.opened:
        broker.close()


class Waiting:
    """A call in a thread of its own, and what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except leveret.LeveretError as error:
            self.error = error

    def ended(self) -> Exception | None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "it still waits"
        return self.error
