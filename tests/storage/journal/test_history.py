"""History: segments that leave the log are kept until a limit is reached."""

from pathlib import Path
from typing import Any

import pytest

from leveret.storage.journal.files.recovery import verify
from leveret.storage.journal.files.store import FileStore
from leveret.storage.journal.history import LOOK_MS
from leveret.storage.journal.postgres.statements import PostgresTable
from tests.storage.journal.table_world import TableWorld
from tests.storage.journal.test_compaction import compact_all, numbers
from tests.storage.journal.world import FaultyDisk, World

DAY_MS = 86_400_000
KEPT: dict[str, Any] = {"segment_bytes": 1024, "history_age_ms": 7 * DAY_MS, "history_bytes": 1 << 30}


def files(world: World) -> FileStore:
    """The store of a world, which is on files."""
    assert isinstance(world.store, FileStore)
    return world.store


def use_up(world: World, count: int = 30) -> None:
    """Publish and settle messages, and let compaction take their segments out of the log."""
    for _ in range(count):
        world.state.settle(1, world.durably(b"x" * 100))
    world.commit.flush()
    compact_all(world)


def test_what_leaves_the_log_is_kept_and_not_replayed(tmp_path: Path) -> None:
    world = World(tmp_path, **KEPT)
    kept = world.durably(b"kept")
    use_up(world)
    facts, oldest = world.facts(), world.store.oldest
    assert numbers(tmp_path)[0] == 1 < oldest
    assert world.store.history.figures.segments == oldest - 1
    assert world.store.history.figures.begins_ms is None, "nothing is lost"
    assert set(world.store.sizes()) == set(range(oldest, world.journal.segment + 1))
    world.kill()
    for checkpoint in tmp_path.glob("ckpt-*"):
        checkpoint.unlink()
    world = World(tmp_path, **KEPT)
    assert world.facts() == facts
    assert world.bodies() == {1: {kept: b"kept"}}
    assert world.recovered.segments == len(world.store.sizes()), "history is not read"
    assert numbers(tmp_path)[0] == 1
    world.close()
    assert verify(world.disk) == []


def test_the_oldest_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    world = World(tmp_path, **KEPT | {"history_bytes": 5_000})
    use_up(world)
    figures = world.store.history.figures
    assert figures.bytes <= 5_000 < figures.bytes + 1_500
    assert list(world.store.kept()) == list(range(figures.dropped + 1, world.store.oldest))
    assert figures.dropped > 0
    assert figures.begins_ms == world.now_ms, "the time of the first segment that is left"
    world.close()


def test_what_is_older_than_the_age_goes(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, **KEPT)
    use_up(world)
    before = world.store.history.figures
    world.now_ms += 6 * DAY_MS
    use_up(world)
    assert world.store.history.figures.dropped == 0
    world.now_ms += 2 * DAY_MS
    world.store.housekeep()
    assert world.store.history.figures.dropped == before.segments
    assert world.store.history.figures.begins_ms == 1_000_000, "one segment has events of both times"
    world.now_ms += LOOK_MS - 1
    disk.calls.clear()
    world.store.history.look()
    assert disk.calls == [], "it is not looked at each time"
    world.close()


@pytest.mark.parametrize("off", ["history_age_ms", "history_bytes"])
def test_with_a_limit_of_nothing_no_segment_is_kept(tmp_path: Path, off: str) -> None:
    world = World(tmp_path, **KEPT)
    use_up(world)
    world.close()
    world = World(tmp_path, **KEPT | {off: 0})
    assert (world.store.kept(), world.store.history.figures.dropped) == ({}, 0)
    use_up(world)
    assert (world.store.kept(), world.store.history.figures.dropped) == ({}, 0)
    world.close()


def test_what_goes_to_the_archive_directory_is_not_history(tmp_path: Path) -> None:
    world = World(tmp_path / "data", **KEPT)
    use_up(world)
    before = world.store.kept()
    world.close()
    world = World(tmp_path / "data", archive_dir=str(tmp_path / "archive"), **KEPT)
    use_up(world)
    assert world.store.kept() == before
    assert numbers(tmp_path / "archive")[0] == len(before) + 1
    world.close()


def test_history_gives_way_before_publishes_are_refused(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, **KEPT | {"disk_free_min_bytes": 1 << 20})
    use_up(world)
    segments = world.store.history.figures.segments
    disk.room_bytes = 1 << 20
    files(world)._writer.check_space()
    assert (world.store.history.figures.segments, world.journal.full) == (segments, False)
    disk.room_bytes = (1 << 20) - 1_500
    files(world)._writer.check_space()
    assert (world.store.history.figures.segments, world.journal.full) == (segments - 2, False)
    disk.room_bytes = 1 << 19
    files(world)._writer.check_space()
    assert (world.store.kept(), world.journal.full) == ({}, True), "there was nothing else to give up"
    assert world.store.history.figures.dropped == segments
    world.close()


def test_a_write_without_room_takes_that_of_history(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, **KEPT | {"spare_bytes": 4_096})
    use_up(world)
    segments = world.store.history.figures.segments
    disk.room_bytes = 0
    seq = world.durably(b"y" * 100)
    assert world.bodies() == {1: {seq: b"y" * 100}}
    assert (world.store.history.figures.segments, world.journal.full) == (segments - 1, False)
    assert "SPARE" in disk.names()
    world.close()


def test_what_leaves_the_log_is_kept_in_its_tables_up_to_the_limits(store_url: str) -> None:
    kept: dict[str, Any] = {"segment_bytes": 1024, "history_age_ms": 1_000, "history_bytes": 5_000}
    world = TableWorld(PostgresTable(store_url), **kept)
    for _ in range(40):
        world.state.settle(1, world.durably(b"x" * 100))
    while world.store.compact():
        continue
    history = world.store.history
    assert 0 < history.figures.bytes <= 5_000
    assert list(world.store.kept()) == list(range(history.figures.dropped + 1, world.store.oldest))
    assert (history.figures.begins_ms, set(world.store.kept()) & set(world.store.sizes())) == (world.now_ms, set())
    world.kill()
    world = TableWorld(PostgresTable(store_url), **kept)
    assert (world.recovered.segments, world.bodies()) == (len(range(world.store.oldest, world.journal.segment + 1)), {})
    world.now_ms += 2_000
    assert world.durably()
    world.store.housekeep()
    assert world.store.history.figures.segments == 0
    world.close()
