from pathlib import Path

import pytest

from leveret.core.errors import DamagedJournal
from tests.storage.journal.world import QuickDisk, World


def checkpoints(path: Path) -> list[Path]:
    return sorted(path.glob("ckpt-*.idx"))


def busy(world: World) -> None:
    """Do a little of everything."""
    world.state.define(1, b"queue %d" % world.state.seq)
    numbers = [world.publish(b"body %d" % i, (1, 2), group=i, due_ms=i) for i in range(6)]
    world.state.settle(1, numbers[0])
    world.state.deliver(2, numbers[1])
    world.state.give_back(2, numbers[1], due_ms=5)
    world.state.deduplicate(1, numbers[2].to_bytes(16, "little"), numbers[2], 4)
    world.commit.flush()


def test_the_state_is_the_same_with_and_without_the_checkpoint(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=1024)
    busy(world)
    assert world.store.checkpoint()
    busy(world)
    facts, counts = world.facts(), world.journal.counts()
    world.kill()
    world = World(tmp_path, segment_bytes=1024)
    assert world.recovered.from_checkpoint
    assert (world.facts(), world.journal.counts()) == (facts, counts)
    world.kill()
    for checkpoint in checkpoints(tmp_path):
        checkpoint.unlink()
    world = World(tmp_path, segment_bytes=1024)
    assert not world.recovered.from_checkpoint
    assert (world.facts(), world.journal.counts()) == (facts, counts)
    world.close()


def test_a_clean_close_leaves_nothing_to_replay(tmp_path: Path) -> None:
    world = World(tmp_path)
    busy(world)
    facts = world.facts()
    world.close()
    before = (tmp_path / "seg-00000000000000000001.log").stat().st_ino
    world = World(tmp_path)
    assert (world.recovered.frames, world.recovered.from_checkpoint) == (0, True)
    assert world.facts() == facts
    world.kill()
    assert (tmp_path / "seg-00000000000000000001.log").stat().st_ino == before, "a clean segment is not written anew"


def test_only_the_newest_checkpoint_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        busy(world)
        world.store.checkpoint()
    assert len(checkpoints(tmp_path)) == 1
    world.close()


def test_a_damaged_checkpoint_is_ignored_at_every_byte(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.durably(b"one")
    world.store.checkpoint()
    world.durably(b"two")
    facts = world.facts()
    world.kill()
    (checkpoint,) = checkpoints(tmp_path)
    data = checkpoint.read_bytes()
    for offset in range(0, len(data), 3):
        checkpoint.write_bytes(data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])
        world = World(QuickDisk(tmp_path))
        assert (world.facts(), world.recovered.checkpoints_ignored) == (facts, 1)
        world.kill()
        checkpoint.write_bytes(data[:offset])
        world = World(QuickDisk(tmp_path))
        assert (world.facts(), world.recovered.checkpoints_ignored) == (facts, 1)
        world.kill()


def test_a_log_that_ends_before_its_checkpoint_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.durably(b"one")
    world.durably(b"two")
    world.close()
    segment = tmp_path / "seg-00000000000000000001.log"
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size - 60)
    with pytest.raises(DamagedJournal, match="is cut before"):
        World(tmp_path)
    world = World(tmp_path, salvage=True)
    assert list(world.bodies()[1].values()) == [b"one"]
    world.close()


def test_a_checkpoint_is_taken_when_enough_was_written(tmp_path: Path) -> None:
    world = World(tmp_path, checkpoint_bytes=10_000)
    world.durably(b"x" * 9_000)
    world.store.housekeep()
    assert checkpoints(tmp_path) == []
    world.durably(b"x" * 2_000)
    world.store.housekeep()
    (first,) = checkpoints(tmp_path)
    world.durably(b"x" * 9_000)
    world.store.housekeep()
    assert checkpoints(tmp_path) == [first]
    world.close()


def test_a_checkpoint_at_the_border_of_segments(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=1024)
    world.durably(b"x" * 1024)
    assert world.journal.segment == 2
    world.close()
    # The checkpoint's own frame is the first of segment 2; fill it, so that the third comes next.
    world = World(tmp_path, segment_bytes=1024)
    world.publish(b"y" * 1024)
    facts = world.facts()
    world.store.checkpoint()
    assert (world.journal.segment, world.journal.offset) == (3, 64)
    world.kill()
    world = World(tmp_path, segment_bytes=1024)
    assert world.recovered.from_checkpoint
    assert world.facts() == facts
    world.durably(b"z")
    assert list(world.bodies()[1].values())[-1] == b"z"
    world.close()


def test_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    (tmp_path / "ckpt-00000000000000000009.idx.tmp").write_bytes(b"half")
    World(tmp_path).close()
    assert list(tmp_path.glob("*.tmp")) == []
