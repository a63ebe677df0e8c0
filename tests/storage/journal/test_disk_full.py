"""A full disk: publishes are refused before and after, acknowledgements go on, and it ends by itself."""

import errno
from pathlib import Path
from typing import Any

import pytest

from leveret.core.errors import JournalFailed
from tests.storage.journal.world import FaultyDisk, World

SPARE = 8192


def almost_full(path: Path, room_bytes: int, **options: Any) -> tuple[FaultyDisk, World]:
    disk = FaultyDisk(path)
    world = World(disk, **{"spare_bytes": SPARE, **options})
    world.durably(b"before")
    disk.room_bytes = room_bytes
    return disk, world


@pytest.mark.parametrize("room_bytes", [0, 1, 47, 48, 100])
def test_the_spare_file_gives_room_for_acknowledgements(tmp_path: Path, room_bytes: int) -> None:
    _, world = almost_full(tmp_path, room_bytes)
    seq = world.durably(b"the one that found no room")
    assert world.journal.full
    assert not (tmp_path / "SPARE").exists()
    world.state.settle(1, seq)
    world.commit.flush()
    facts = world.facts()
    world.kill()
    world = World(tmp_path)
    assert world.facts() == facts
    world.close()


def test_without_a_spare_file_it_fails_at_once(tmp_path: Path) -> None:
    _, world = almost_full(tmp_path, 10, spare_bytes=0)
    with pytest.raises(JournalFailed, match="No space left"):
        world.durably(b"no room")
    world.close()
    world = World(tmp_path)
    assert list(world.bodies()[1].values()) == [b"before"]
    world.close()


def test_when_the_spare_is_used_up_it_fails(tmp_path: Path) -> None:
    _, world = almost_full(tmp_path, 0)
    with pytest.raises(JournalFailed):
        world.durably(b"x" * (SPARE + 1))
    world.close()


def test_a_sync_without_room_is_a_failure(tmp_path: Path) -> None:
    disk, world = almost_full(tmp_path, 1 << 30)
    disk.failing["datasync"] = errno.ENOSPC
    with pytest.raises(JournalFailed):
        world.durably()
    disk.failing.clear()
    assert (tmp_path / "SPARE").exists()
    world.close()


def test_a_new_segment_finds_room_too(tmp_path: Path) -> None:
    disk, world = almost_full(tmp_path, 1 << 30, segment_bytes=1024)
    world.durably(b"x" * 1024)
    assert world.journal.segment == 2
    disk.room_bytes = 30
    world.durably(b"in the new segment")
    assert world.journal.full
    facts = world.facts()
    world.kill()
    world = World(tmp_path)
    assert world.facts() == facts
    world.close()


def test_publishes_are_taken_again_when_there_is_room(tmp_path: Path) -> None:
    disk, world = almost_full(tmp_path, 0)
    world.durably()
    disk.room_bytes = 2 * SPARE - 1
    world.store.housekeep()
    assert world.journal.full
    disk.room_bytes = 2 * SPARE
    world.store.housekeep()
    assert not world.journal.full
    assert (tmp_path / "SPARE").stat().st_size == SPARE
    world.close()


def test_the_alarm_comes_before_the_disk_is_full(tmp_path: Path) -> None:
    disk, world = almost_full(tmp_path, 1 << 30, segment_bytes=1024, disk_free_min_bytes=1_000_000)
    disk.room_bytes = 900_000
    world.durably(b"x" * 1024)
    assert not world.journal.full, "it is looked at when a segment begins"
    world.durably()
    assert world.journal.full
    assert (tmp_path / "SPARE").exists()
    disk.room_bytes = 1_100_000
    world.store.housekeep()
    assert not world.journal.full
    world.close()


def test_a_checkpoint_without_room_is_left_out(tmp_path: Path) -> None:
    disk, world = almost_full(tmp_path, 1 << 30)
    disk.room_bytes = 60
    assert not world.store.checkpoint()
    assert list(tmp_path.glob("*.tmp")) == []
    world.durably()
    world.kill()
    World(tmp_path).close()


def test_a_full_disk_can_be_opened_and_drained(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=1024)
    seqs = [world.durably(b"x" * 200) for _ in range(20)]
    world.kill()
    disk = FaultyDisk(tmp_path)
    disk.room_bytes = 700
    disk.failing["allocate"] = errno.ENOSPC
    world = World(disk, segment_bytes=1024, spare_bytes=SPARE)
    assert world.journal.full
    disk.room_bytes = 2_000
    for seq in seqs:
        world.state.settle(1, seq)
    world.commit.flush()
    while world.store.compact():
        pass
    disk.failing.clear()
    disk.room_bytes += 2 * SPARE
    world.store.housekeep()
    assert not world.journal.full
    world.close()
