"""What stays in memory, and reading what does not."""

from pathlib import Path

import pytest

from leveret.core.errors import DamagedJournal, MessageNotFound, MessageTooLarge
from leveret.journal import segments
from leveret.journal.encryption import Keys
from tests.journal.world import HEADER, FaultyDisk, World

KEPT_MS = 5000


def cached(world: World) -> set[int]:
    return set(world.journal.bodies)


def test_messages_are_cached_while_they_fit(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=250)
    first, second, third = (world.publish(b"x" * (100 - len(HEADER))) for _ in range(3))
    assert cached(world) == {first, second}
    assert world.journal.cached_bytes == 200
    world.state.settle(1, first)
    assert world.journal.cached_bytes == 100
    fourth = world.publish(b"x" * (100 - len(HEADER)))
    assert cached(world) == {second, fourth}
    assert world.state.read(1, third).body == b"x" * (100 - len(HEADER))
    assert cached(world) == {second, fourth}, "what was read back is not cached"
    world.close()


def test_the_oldest_makes_room_once_it_has_had_its_time(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=250)
    numbers = [world.publish(b"x" * 88) for _ in range(2)]
    world.now_ms += KEPT_MS - 1
    world.publish(b"too early")
    assert cached(world) == {*numbers, 3}
    world.publish(b"x" * 88)
    assert cached(world) == {*numbers, 3}
    world.now_ms += 1
    newest = world.publish(b"x" * 88)
    assert cached(world) == {numbers[1], 3, newest}
    world.state.settle(1, numbers[0])
    assert world.journal.cached_bytes == sum(len(m.content) for m in world.journal.bodies.values())
    world.close()


def test_messages_in_memory_only_are_never_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=50)
    numbers = [world.publish(b"x" * 100, flags=0) for _ in range(3)]
    world.now_ms += 2 * KEPT_MS
    world.publish(b"x" * 100)
    assert cached(world) == set(numbers)
    world.close()


def test_a_long_wait_behind_one_message_does_not_grow_the_order_of_the_cache(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=1000)
    stuck = world.publish(b"stuck")
    for _ in range(10_000):
        world.state.settle(1, world.publish(b"passing by"))
    assert cached(world) == {stuck}
    world.publish(b"x" * 900)
    world.now_ms += KEPT_MS
    newest = world.publish(b"x" * 900)
    assert stuck not in cached(world)
    assert newest not in cached(world), "one is given up for one that comes"
    assert world.publish(b"x" * 900) in cached(world)
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


@pytest.mark.parametrize("keys", [Keys(), Keys(b"k" * 32)], ids=["plain", "encrypted"])
def test_few_files_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: Keys) -> None:
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
