"""What stays in memory, and reading what does not."""

from pathlib import Path

import pytest

from leveret.core.errors import DamagedJournal, MessageNotFound, MessageTooLarge
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.files import segments
from tests.storage.journal.world import FaultyDisk, World

BATCH = b"x" * 3000  # a frame of one such message takes one buffer of 4,096 bytes


def reads(disk: FaultyDisk, world: World, seq: int) -> int:
    """How often the disk is asked for a message."""
    before = disk.calls.count("pread")
    assert world.state.read(1, seq).body == BATCH
    return disk.calls.count("pread") - before


def test_what_was_written_last_is_not_read_from_the_disk(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, cache_bytes=2 * 4096)
    first, second, third = (world.durably(BATCH) for _ in range(3))
    assert world.journal.cached_bytes <= 2 * 4096
    assert reads(disk, world, third) == 0
    assert reads(disk, world, second) == 0
    assert reads(disk, world, first) > 0
    world.close()


def test_the_end_of_the_log_in_memory_is_bounded_and_every_message_readable(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=50_000, segment_bytes=20_000)
    numbers = {world.durably(b"message %d" % number * 20): number for number in range(200)}
    assert 0 < world.journal.cached_bytes <= 50_000
    for seq, number in [*numbers.items(), *reversed(numbers.items()), *sorted(numbers.items(), key=lambda p: p[1] % 7)]:
        assert world.state.read(1, seq).body == b"message %d" % number * 20
    world.close()


def test_a_removed_segment_leaves_memory_too(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=4096)
    for _ in range(20):
        world.state.settle(1, world.durably(BATCH))
    before = world.journal.cached_bytes
    while world.store.compact(1 << 20):
        pass
    assert world.journal.cached_bytes < before
    world.close()


def test_messages_in_memory_only_are_never_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=50)
    numbers = [world.publish(b"x" * 100, flags=0) for _ in range(3)]
    world.durably(b"x" * 100)
    assert set(world.journal.bodies) == set(numbers)
    assert world.bodies()[1][numbers[0]] == b"x" * 100
    world.state.settle(1, numbers[0])
    assert set(world.journal.bodies) == set(numbers[1:])
    world.close()


def test_a_backlog_is_read_in_large_pieces(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, cache_bytes=1, segment_bytes=20_000)
    for number in range(300):
        world.publish(b"message %d" % number + b"x" * 100)
        if number % 10 == 9:
            world.commit.flush()
    before = disk.calls.count("pread")
    assert list(world.bodies()[1].values()) == [b"message %d" % n + b"x" * 100 for n in range(300)]
    assert disk.calls.count("pread") - before < 10
    world.close()


def test_the_window_never_shows_what_was_not_yet_written(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=1)
    first = world.durably(b"first" * 50)
    assert world.state.read(1, first).body == b"first" * 50
    second = world.durably(b"second" * 50)
    assert world.state.read(1, second).body == b"second" * 50
    assert world.state.read(1, first).body == b"first" * 50
    world.close()


@pytest.mark.parametrize("keys", [MasterKeys(), MasterKeys(b"k" * 32)], ids=["plain", "encrypted"])
def test_few_files_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: MasterKeys) -> None:
    monkeypatch.setattr(segments, "OPEN_FILES_MAX", 3)
    opened: set[int] = set()

    class Counting(FaultyDisk):
        def open_read(self, name: str) -> int:
            fd = super().open_read(name)
            opened.add(fd)
            assert len(opened) <= 4
            return fd

        def close(self, fd: int) -> None:
            opened.discard(fd)
            super().close(fd)

    world = World(Counting(tmp_path), cache_bytes=1, segment_bytes=1024, keys=keys)
    for number in range(40):
        world.durably(b"message %d" % number + b"x" * 200)
    for _ in range(2):
        assert list(world.bodies()[1].values()) == [b"message %d" % n + b"x" * 200 for n in range(40)]
    world.close()
    assert not opened


def test_a_damaged_record_is_refused_by_name_and_offset(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=1)
    numbers = [world.durably(b"message %d" % n) for n in range(3)]
    segment = tmp_path / "seg-00000000000000000001.log"
    data = bytearray(segment.read_bytes())
    place = world.state.queues[1][numbers[1]]
    for offset in range(place.offset, place.offset + place.size):
        changed = bytearray(data)
        changed[offset] ^= 4
        segment.write_bytes(changed)
        assert world.state.read(1, numbers[0 if offset % 2 else 2]).body.startswith(b"message")
        world.journal.forget(1)
        with pytest.raises(DamagedJournal, match=rf"{segment.name} is damaged at offset {place.offset}"):
            world.state.read(1, numbers[1])
        world.journal.forget(1)
    segment.write_bytes(data)
    assert world.state.read(1, numbers[1]).body == b"message 1"
    world.close()


@pytest.mark.parametrize(("offset", "size"), [(64, 0), (64, 5), (1 << 31, 100), (100, 0xFFFFFF), (0xFFFFFFFF, 20)])
def test_a_place_that_cannot_be_is_refused(tmp_path: Path, offset: int, size: int) -> None:
    world = World(tmp_path, cache_bytes=1)
    seq = world.durably()
    held = world.state.queues[1][seq]
    held.offset, held.size = offset, size
    with pytest.raises(DamagedJournal):
        world.state.read(1, seq)
    world.kill()


def test_a_message_that_was_in_memory_only_and_has_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    seq = world.publish(flags=0)
    world.journal.bodies.clear()
    with pytest.raises(MessageNotFound):
        world.state.read(1, seq)
    world.kill()


def test_a_record_has_a_limit(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(MessageTooLarge, match="blob store"):
        world.publish(b"x" * (1 << 24))
    world.durably(b"x" * ((1 << 24) - 1000))
    facts = world.facts()
    world.kill()
    world = World(tmp_path)
    assert world.facts() == facts
    world.close()
