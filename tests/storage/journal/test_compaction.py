import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from leveret.core.errors import DamagedJournal
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.store import SLACK_BYTES, is_worth_copying
from tests.storage.journal.world import FaultyDisk, World

SMALL: dict[str, Any] = {"segment_bytes": 1024}


def numbers(path: Path) -> list[int]:
    return sorted(int(file.name[4:24]) for file in path.glob("seg-*.log"))


def fill(world: World, count: int) -> list[int]:
    return [world.durably(b"%03d" % i + b"x" * 100) for i in range(count)]


def compact_all(world: World) -> int:
    steps = 0
    while world.store.compact():
        steps += 1
        assert steps < 1000
    return steps


def test_segments_go_oldest_first_and_never_the_one_being_written(tmp_path: Path) -> None:
    world = World(tmp_path, **SMALL)
    seqs = fill(world, 40)
    before = numbers(tmp_path)
    for seq in seqs[20:]:
        world.state.settle(1, seq)
    assert not world.store.compact(), "the newer segments are dead, the oldest is not"
    for seq in seqs[:20]:
        world.state.settle(1, seq)
    world.commit.flush()
    gone: list[int] = []
    while world.store.compact():
        gone.append(min(before) + len(gone))
        assert numbers(tmp_path)[0] == gone[-1] + 1
    assert numbers(tmp_path)[-1] >= before[-1]
    assert world.journal.segment not in gone
    world.close()


def test_live_records_are_copied_forward(tmp_path: Path) -> None:
    world = World(tmp_path, **SMALL)
    seqs = fill(world, 40)
    kept = seqs[::5]
    for seq in seqs:
        if seq not in kept:
            world.state.settle(1, seq)
    world.state.deliver(1, kept[0])
    world.state.define(1, b"kept")
    world.state.deduplicate(1, b"d" * 16, kept[0], 77)
    world.commit.flush()
    facts = world.facts()
    first = numbers(tmp_path)[0]
    assert compact_all(world) > 2
    assert numbers(tmp_path)[0] > first
    assert world.facts() == facts
    world.kill()
    world = World(tmp_path, **SMALL)
    assert world.facts() == facts
    world.close()


def test_definitions_outlive_their_segment_though_no_message_does(tmp_path: Path) -> None:
    world = World(tmp_path, **SMALL)
    world.state.define(4, b"a queue of long ago")
    for seq in fill(world, 30):
        world.state.settle(1, seq)
    world.commit.flush()
    compact_all(world)
    assert numbers(tmp_path)[0] > 1
    world.kill()
    world = World(tmp_path, **SMALL)
    assert set(world.state.definitions) == {(4, b"a queue of long ago")}
    world.close()


def test_message_numbers_go_on_though_no_entry_mentions_them_any_more(tmp_path: Path) -> None:
    world = World(tmp_path, **SMALL)
    for seq in fill(world, 30):
        world.state.settle(1, seq)
    world.commit.flush()
    for number in range(40):
        world.state.define(1, b"%d" % number * 40)
        world.commit.flush()
    while world.store.compact():
        world.state.definitions.clear()
    world.kill()
    world = World(tmp_path, **SMALL)
    assert not world.recovered.from_checkpoint
    assert world.state.seq == 30
    world.close()


def test_a_budget_bounds_one_step(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=10_000)
    seqs = fill(world, 100)
    for seq in seqs:
        if seq % 3:
            world.state.settle(1, seq)
    offset = world.journal.offset
    assert world.store.compact(budget_bytes=150)
    assert world.journal.offset - offset < 1_500
    assert numbers(tmp_path)[0] == 1
    world.close()


def test_an_older_checkpoint_is_corrected_by_the_replay(tmp_path: Path) -> None:
    world = World(tmp_path, **SMALL)
    seqs = fill(world, 20)
    world.store.checkpoint()
    checkpoint = next(tmp_path.glob("ckpt-*"))
    for seq in seqs[1:]:
        if seq % 4:
            world.state.settle(1, seq)
    world.commit.flush()
    facts = world.facts()
    while numbers(tmp_path)[0] < 3:
        assert world.store.compact()
    assert checkpoint.exists()
    world.kill()
    world = World(tmp_path, **SMALL)
    assert world.recovered.from_checkpoint
    assert world.facts() == facts, "the checkpoint names places in segments that are gone"
    world.close()


def test_a_checkpoint_whose_segment_is_gone_is_not_used(tmp_path: Path) -> None:
    world = World(tmp_path, **SMALL)
    seqs = fill(world, 3)
    world.store.checkpoint()
    fill(world, 20)
    for seq in list(world.state.queues[1]):
        if seq != seqs[0]:
            world.state.settle(1, seq)
    facts = world.facts()
    compact_all(world)
    world.kill()
    world = World(tmp_path, **SMALL)
    assert (world.recovered.from_checkpoint, world.recovered.checkpoints_ignored) == (False, 1)
    assert world.facts() == facts
    world.close()


def test_a_removed_segment_that_comes_back_is_removed_again(tmp_path: Path) -> None:
    world = World(tmp_path, **SMALL)
    seqs = fill(world, 20)
    old = (tmp_path / "seg-00000000000000000001.log").read_bytes()
    for seq in seqs[:15]:
        world.state.settle(1, seq)
    facts = world.facts()
    compact_all(world)
    world.kill()
    for checkpoint in tmp_path.glob("ckpt-*"):
        checkpoint.unlink()
    (tmp_path / "seg-00000000000000000001.log").write_bytes(old)
    world = World(tmp_path, **SMALL)
    assert world.facts() == facts
    assert numbers(tmp_path)[0] > 1
    world.close()


def test_a_segment_is_copied_when_most_of_it_or_of_the_log_is_dead() -> None:
    assert is_worth_copying(1, {1: 0}, {1: 10}, {1: 100})
    assert is_worth_copying(1, {1: 4}, {1: 10}, {1: 100})
    assert not is_worth_copying(1, {1: 5}, {1: 10}, {1: 100})
    big = {1: SLACK_BYTES, 2: 2 * SLACK_BYTES}
    assert is_worth_copying(1, {1: 10, 2: 0}, {1: 10, 2: 10}, {**big, 3: SLACK_BYTES})
    assert not is_worth_copying(1, {1: 10, 2: 10}, {1: 10, 2: 10}, big)


@pytest.mark.parametrize("linkable", [True, False])
@pytest.mark.parametrize("keys", [MasterKeys(), MasterKeys(b"k" * 32)], ids=["plain", "encrypted"])
def test_a_segment_is_archived_with_the_names_of_its_queues(tmp_path: Path, linkable: bool, keys: MasterKeys) -> None:
    disk = FaultyDisk(tmp_path / "data")
    if not linkable:
        disk.link = refuse_link  # type: ignore[method-assign]
    archive = tmp_path / "archive"
    named = {1: "orders", 2: "invoices", 3: "never mentioned"}
    world = World(disk, archive_dir=str(archive), names=lambda asked: {n: named[n] for n in asked}, keys=keys, **SMALL)
    world.publish(b"x" * 600, (1, 2))
    seqs = fill(world, 8)
    original = (tmp_path / "data/seg-00000000000000000001.log").read_bytes()
    world.state.settle(1, 1)
    world.state.settle(2, 1)
    for seq in seqs:
        world.state.settle(1, seq)
    compact_all(world)
    assert (archive / "seg-00000000000000000001.log").read_bytes() == original
    names = json.loads((archive / "seg-00000000000000000001.names.json").read_text())
    assert names == {"1": "orders", "2": "invoices"}
    assert not (tmp_path / "data/seg-00000000000000000001.log").exists()
    world.close()


def refuse_link(name: str, directory: object) -> None:
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def test_what_cannot_be_archived_is_kept(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file is in the way")
    world = World(tmp_path / "data", archive_dir=str(tmp_path / "archive"), **SMALL)
    for seq in fill(world, 20):
        world.state.settle(1, seq)
    assert not world.store.compact()
    assert numbers(tmp_path / "data")[0] == 1
    assert isinstance(world.store.archive_problem, FileExistsError)
    world.close()


def test_reading_from_a_segment_that_vanished_says_which(tmp_path: Path) -> None:
    world = World(tmp_path, cache_bytes=1, **SMALL)
    fill(world, 20)
    (tmp_path / "seg-00000000000000000001.log").unlink()
    with pytest.raises(DamagedJournal, match=r"seg-0{19}1\.log"):
        world.state.read(1, 1)
    world.kill()


def test_a_segment_that_empties_by_itself_is_not_copied(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=4096)
    seqs = fill(world, 40)
    assert not world.store.housekeep(), "most of the oldest segment is alive"
    for seq in seqs[:12]:
        world.state.settle(1, seq)
    assert not world.store.housekeep()
    assert numbers(tmp_path)[0] == 1, "consumers are emptying it"
    world.store.housekeep()
    assert numbers(tmp_path)[0] == 2, "they have stopped, so the rest is copied"
    world.close()
