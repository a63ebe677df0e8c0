"""Every call on the disk fails once: what was confirmed is there afterwards, and nothing is confirmed that is not."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from leveret.core.errors import JournalError, JournalFailed
from tests.storage.journal.world import FaultyDisk, World


def workload(world: World, confirmed: dict[int, bytes], settled: set[int], asked: set[int]) -> None:
    """Publish, settle, roll, checkpoint and compact; note what was confirmed."""
    for number in range(24):
        body = b"message %d " % number + b"x" * 120
        seq = world.publish(body)
        world.commit.flush()
        confirmed[seq] = body
        if number % 4:
            asked.add(seq)
            world.state.settle(1, seq)
            world.commit.flush()
            settled.add(seq)
        if number % 8 == 5:
            world.store.checkpoint()
        if number % 8 == 7:
            while world.store.compact():
                world.commit.flush()
    world.close()


def run(path: Path, fail_at: int, **options: Any) -> tuple[FaultyDisk, dict[int, bytes], set[int], set[int]]:
    """Run the workload with one failing call."""
    confirmed: dict[int, bytes] = {}
    settled: set[int] = set()
    asked: set[int] = set()
    disk = FaultyDisk(path)
    disk.fail_at = fail_at
    world = None
    try:
        world = World(disk, segment_bytes=1024, cache_bytes=1, **options)
        workload(world, confirmed, settled, asked)
    except JournalError:
        if world is not None:
            if world.commit.failed is None:
                world.kill()
            else:
                assert world.failures == [world.commit.failed]
                world.close()
    return disk, confirmed, settled, asked


def check(path: Path, confirmed: dict[int, bytes], settled: set[int], asked: set[int]) -> None:
    """Open again without faults and compare."""
    world = World(path, segment_bytes=1024)
    found = world.bodies().get(1, {})
    for seq, body in confirmed.items():
        if seq not in asked:
            assert found.get(seq) == body, f"confirmed message {seq} is lost"
    assert not settled & set(found), "a settled message came back"
    world.close()


@pytest.mark.parametrize("spare_bytes", [0, 4096])
def test_whichever_call_fails_nothing_confirmed_is_lost(tmp_path: Path, spare_bytes: int) -> None:
    disk, confirmed, settled, _ = run(tmp_path / "calm", 0, spare_bytes=spare_bytes)
    total = len(disk.calls)
    assert (len(confirmed), len(settled)) == (24, 18)
    assert {"write", "datasync", "sync", "rename", "unlink", "sync_dir", "pread"} <= set(disk.calls)
    for k in range(1, total + 1):
        path = tmp_path / "faulty"
        _, confirmed, settled, asked = run(path, k, spare_bytes=spare_bytes)
        check(path, confirmed, settled, asked)
        shutil.rmtree(path)


def test_a_call_that_fails_while_opening_leaves_the_directory_usable(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=1024)
    for number in range(12):
        world.durably(b"message %d " % number + b"x" * 120)
    facts = world.facts()
    world.kill()

    def opening(fail_at: int) -> FaultyDisk:
        disk = FaultyDisk(tmp_path)
        disk.fail_at = fail_at
        World(disk, segment_bytes=1024).kill()
        return disk

    total = len(opening(0).calls)
    assert total > 10
    for k in range(1, total + 1):
        with pytest.raises(JournalFailed, match="cannot be opened"):
            opening(k)
    world = World(tmp_path, segment_bytes=1024)
    assert world.facts() == facts
    world.close()
