"""Power cuts and kills at every call of the disk while batches are staged, decided on and published."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.errors import DamagedJournal
from leveret.journal.disk import Bytes
from leveret.journal.encryption import Keys
from leveret.journal.files import FileJournal
from leveret.sink import rollforward, staging
from leveret.sink.ledger import Batch, Ledger, Share, Sink
from leveret.sink.rollforward import RollForward
from leveret.sink.staging import Staging, StagingLimits
from tests.sim.node import OPTIONS, Life, clock
from tests.sim.simdisk import SimDisk
from tests.sink.batches import bodies, piece

SINK = Sink("/", "guest", "s")
LIMITS = StagingLimits(1 << 20, 1 << 20, 1 << 40)
SHARES = (Share("b", 2), Share("a", 1))
PIECES = {("b", 0): bodies(0, 7), ("b", 1): bodies(7, 5), ("a", 0): bodies(12, 9)}
ROWS = 21
RUNS = [("kill", 0), ("power cut", 0), ("power cut", 1)]


class Cut(Exception):
    """The power went."""


class Power:
    """Cuts the power before or after a call of any of the disks."""

    def __init__(self, at: int) -> None:
        self.calls = 0
        self.at = at

    def __call__(self, name: str) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise Cut


class Process(Life):
    """A broker with staged parts, on two simulated disks, until the power goes."""

    def __init__(self, log: SimDisk, staged: SimDisk, power: Power) -> None:
        log.hook = staged.hook = power
        journal = FileJournal(OPTIONS, clock)
        self.core = Broker(journal)
        self.open(log, journal, self.core, clock, OPTIONS)
        self.core.tick(clock())
        self.staging = Staging(staged, Keys(), LIMITS, 0)
        self.ledger = Ledger(self.core, 2)

    def stage(self) -> None:
        """As tasks do."""
        for (part, number), values in PIECES.items():
            self.staging.put(SINK, part, number, piece(values), 0)

    def commit_batch(self, number: int) -> bool:
        """What a commit does when it is asked for, from wherever the last one came to; False: it was done before."""
        known = self.ledger.find(SINK, number, "")
        if known is not None and known.published:
            return False
        if known is None:
            self.stage()
            self.staging.claim(SINK, SHARES)
            known = Batch(SINK, number, ROWS, 0, shares=SHARES)
            self.ledger.decide(known)
            self.commit()
        self.roll(known)
        return True

    def roll(self, batch: Batch) -> None:
        """As the server does, also after a start."""
        roll = RollForward(self.ledger, self.staging, batch, 1_000)
        while not roll.ended:
            roll.load()
            roll.step(self.core)
            self.commit()
            self.compact()
        self.ledger.finish(batch)
        self.commit()
        self.staging.release(SINK, SHARES)
        self.staging.drop(SINK, [share.part for share in SHARES])

    def found(self) -> list[bytes]:
        """What the queue holds, in order."""
        queue = self.core.topology.vhost("/").queues["orders"]
        return [browse.read(each).body for each in browse.ready_after(queue, (), 1_000)[0]]


def lives(at: int, seed: int, after: Callable[[SimDisk, Random], SimDisk]) -> tuple[list[bytes], bool]:
    """Commit two batches, the power going once at a call, and Spark repeating what it does not know to be done."""
    rng = Random(seed)
    log, staged = SimDisk(), SimDisk()
    first = Process(log, staged, Power(0))
    first.core.declare_queue("/", "orders")
    first.close()
    power = Power(at)
    try:
        process = Process(log, staged, power)
        process.commit_batch(0)
        process.commit_batch(1)
        process.store.abandon()
        return process.found(), False
    except Cut:
        pass
    again = Process(after(log, rng), after(staged, rng), Power(0))
    for batch in again.ledger.unfinished():
        again.roll(batch)
    for number in (0, 1):
        again.commit_batch(number)
    assert not again.commit_batch(1)
    found = again.found()
    again.close()
    return found, True


AFTER: dict[str, Callable[[SimDisk, Random], SimDisk]] = {
    "kill": lambda disk, rng: disk.killed(),
    "power cut": lambda disk, rng: disk.crash(rng),
}


def tried(after: str, seed: int) -> int:
    """Let the power go at each call in turn; give how often it did."""
    for at in range(1, 10_000):
        found, cut = lives(at, seed, AFTER[after])
        assert found == bodies(0, ROWS) * 2, f"call {at}: {len(found)} rows, {len(set(found))} different ones"
        if not cut:
            return at - 1
    raise AssertionError("it does not end")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollforward, "CHUNK_ROWS", 4)


@pytest.mark.parametrize(("after", "seed"), RUNS)
def test_no_row_is_lost_or_doubled_wherever_it_stops(after: str, seed: int) -> None:
    cuts = tried(after, seed)
    print(f"{after}, seed {seed}: {cuts} runs, lost 0, duplicated 0")
    assert cuts > ROWS


def without_progress(ledger: Ledger, batch: Batch, done: int, dropped: int) -> None:
    batch.done, batch.dropped = done, dropped


def without_sync(disk: SimDisk, name: str, *parts: Bytes) -> None:
    fd = disk.open_append(name)
    disk.write(fd, parts)
    disk.close(fd)


@pytest.mark.parametrize(
    ("mutated", "name", "mutant", "text"),
    [(Ledger, "advance", without_progress, "rows"), (staging, "replace_file", without_sync, "staged|written|short")],
)
def test_crashes_find_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, mutated: object, name: str, mutant: Callable[..., Any], text: str
) -> None:
    monkeypatch.setattr(mutated, name, mutant)
    with pytest.raises((AssertionError, DamagedJournal), match=text):
        tried("power cut", 0)
