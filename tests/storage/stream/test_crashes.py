"""Power cuts and failing disks: what was committed stays, in order and without gaps."""

import errno
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from leveret.core.errors import DamagedJournal, DiskFull, JournalFailed
from leveret.storage.options import StreamOptions
from leveret.storage.stream.index import Producers
from leveret.storage.stream.log import PartitionLog, PartitionWriter
from tests.sim.simdisk import SHORT, SimDisk
from tests.storage.stream.world import HEADER, ROUTE, drained

OPTIONS = StreamOptions(segment_bytes=1 << 10, block_bytes=300, checkpoint_bytes=700)
SEEDS = range(6)
STEPS = 14


class Run:
    """A process that appends, commits, retains and restarts at random, and what it was promised."""

    def __init__(self, rng: Random, disk: SimDisk) -> None:
        self.rng = rng
        self.disk = disk
        self.now_ms = 0
        self.sent: list[bytes] = []
        self.committed = 0
        self.first_max = 0
        """How far retention may have removed."""
        self.log = self.opened()

    def opened(self) -> PartitionLog:
        return PartitionLog(self.disk, OPTIONS, on_failure=lambda failure: None)

    def step(self) -> None:
        """One random thing."""
        self.now_ms += self.rng.randrange(5)
        roll = self.rng.random()
        if roll < 0.7:
            self.append(self.rng.randrange(1, 12))
        elif roll < 0.8:
            self.first_max = self.log.segments[-1].base if self.log.segments else 0
            self.log.retain(self.now_ms, max_bytes=3 << 10)
        elif roll < 0.9:
            try:
                self.log.close(self.now_ms)
            finally:
                self.log = self.opened()
        else:
            self.log.abandon()
            self.log = self.opened()

    def step_when_there_is_room(self) -> None:
        """One random thing; after a full disk what waits is committed, and life goes on."""
        try:
            self.step()
        except DiskFull:
            self.committed = self.log.commit(self.now_ms)

    def append(self, count: int) -> None:
        for _ in range(count):
            body = b"%d " % len(self.sent) + self.rng.randbytes(self.rng.choice([3, 40, 200]))
            self.sent.append(body)
            assert (
                self.log.append(self.now_ms, ROUTE, HEADER + body, len(HEADER), b"", b"p", len(self.sent)) is not None
            )
        self.committed = self.log.commit(self.now_ms)

    def check(self, disk: SimDisk) -> None:
        """Open another disk: it must hold what was promised, and go on from there."""
        log = PartitionLog(disk, OPTIONS, on_failure=lambda failure: None)
        records = drained(log.reader(0))
        assert log.first_offset <= self.first_max
        assert [record.offset for record in records] == list(range(log.first_offset, log.committed))
        assert log.committed >= self.committed
        assert [record.body for record in records] == self.sent[log.first_offset : log.committed]
        # A producer that sends again what it does not know to be committed gets each of them in once.
        for number in range(self.committed, len(self.sent)):
            log.append(self.now_ms, ROUTE, HEADER + self.sent[number], len(HEADER), b"", b"p", number + 1)
        assert log.commit(self.now_ms) == len(self.sent)
        log.close(self.now_ms)
        again = PartitionLog(disk, OPTIONS, on_failure=lambda failure: None)
        assert [record.body for record in drained(again.reader(0))] == self.sent[again.first_offset :]
        again.abandon()


def cut_power_everywhere(seed: int) -> int:
    """Check what is left after power cuts before and after the calls of a run; give their number."""
    rng = Random(seed)
    disk = SimDisk()
    run = Run(rng, disk)
    cuts = 0

    def cut(name: str) -> None:
        nonlocal cuts
        if name in ("write", "truncate") and rng.random() < 0.5:
            return
        cuts += 1
        run.check(disk.crash(Random(rng.random())))

    disk.hook = cut
    for _ in range(STEPS):
        run.step()
    run.log.abandon()
    return cuts


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_at_any_call_loses_nothing_that_was_committed(seed: int) -> None:
    assert cut_power_everywhere(seed) > STEPS


def without_sync(writer: PartitionWriter) -> None:
    writer.synced = writer.written


def without_copy(producers: Producers) -> Producers:
    return producers


def without_names(disk: SimDisk) -> None:
    pass


@pytest.mark.parametrize(
    ("mutated", "name", "mutant"),
    [(PartitionWriter, "sync", without_sync), (Producers, "copy", without_copy), (SimDisk, "sync_dir", without_names)],
)
def test_power_cuts_find_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, mutated: type, name: str, mutant: Callable[[Any], object]
) -> None:
    monkeypatch.setattr(mutated, name, mutant)
    with pytest.raises((AssertionError, DamagedJournal)):
        sum(map(cut_power_everywhere, range(20)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", [errno.EIO, errno.ENOSPC, SHORT])
def test_a_disk_that_fails_once_loses_nothing_that_was_committed(seed: int, fault: int) -> None:
    for call in range(1, 60, 3):
        rng = Random(seed)
        disk = SimDisk()
        run = Run(rng, disk)
        disk.faults[call] = fault
        try:
            for _ in range(STEPS):
                run.step_when_there_is_room()
        except (JournalFailed, OSError):
            pass
        for after in (disk.killed(), disk.crash(Random(seed)), disk.killed().crash(Random(seed))):
            run.check(after)


@pytest.mark.parametrize("seed", range(150))
def test_no_rotten_bit_goes_unnoticed(seed: int) -> None:
    rng = Random(seed)
    disk = SimDisk()
    run = Run(rng, disk)
    for _ in range(4):
        run.append(10)
    run.log.close(run.now_ms)
    disk.flip(rng, rng.choice(disk.names()))
    with pytest.raises(DamagedJournal, match=r"stream-\d+"):
        drained(run.opened().reader(0))


def test_what_only_the_page_cache_holds_is_written_anew() -> None:
    disk = SimDisk()
    log = PartitionLog(disk, OPTIONS, on_failure=lambda failure: None)
    log.append(1, ROUTE, b"durable")
    log.commit(1)
    log.append(2, ROUTE, b"in the cache")
    disk.faults[disk.calls + 2] = errno.EIO
    with pytest.raises(JournalFailed):
        log.commit(2)
    restarted = disk.killed()
    found = PartitionLog(restarted, OPTIONS)
    assert [record.content for record in drained(found.reader(0))] == [b"durable", b"in the cache"]
    cut = PartitionLog(restarted.crash(Random(3)), OPTIONS)
    assert cut.committed == found.committed
    found.abandon()
    cut.abandon()
