"""A damaged stream is repaired: what can be read keeps its offset, and what cannot is counted."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leveret
from leveret.core.errors import DamagedJournal
from leveret.storage.encryption import MasterKeys
from leveret.storage.options import StreamOptions
from leveret.storage.stream.blocks import BlockColumns, block_at
from leveret.storage.stream.index import index_name
from leveret.storage.stream.log import PartitionLog
from leveret.storage.stream.reader import Start, piece
from leveret.storage.stream.recovery import verify_partition
from tests.storage.journal.world import QuickDisk
from tests.storage.stream.world import World, drained, numbered

RECORDS = 40
Damage = Callable[[World, list[Path]], object]


def change(path: Path, at: int, data: bytes = b"\xff\xfe\xfd") -> None:
    """Write something else into a file."""
    with path.open("r+b") as file:
        file.seek(at, 2 if at < 0 else 0)
        file.write(data)


def index_of(world: World, number: int) -> Path:
    return world.disk.path / index_name(world.log.segments[number].base)


def together(*damages: Damage) -> Damage:
    return lambda world, paths: [damage(world, paths) for damage in damages]


DAMAGES: dict[str, Damage] = {
    "a block of a sealed segment": lambda world, paths: change(paths[1], 200),
    "a block of the last segment": lambda world, paths: change(paths[-1], 200),
    "the header of a sealed segment": lambda world, paths: change(paths[1], 3),
    "a header, with its index": together(
        lambda world, paths: change(paths[1], 3), lambda world, paths: index_of(world, 1).unlink()
    ),
    "an index": lambda world, paths: change(index_of(world, 1), 20),
    "the end of a sealed segment": lambda world, paths: paths[1].write_bytes(paths[1].read_bytes()[:-50]),
    "all of a sealed segment": lambda world, paths: paths[1].write_bytes(b""),
    "a segment that is gone": lambda world, paths: paths[1].unlink(),
    "two blocks far apart": together(
        lambda world, paths: change(paths[0], 200), lambda world, paths: change(paths[-1], -300)
    ),
    "the end of the last segment": lambda world, paths: paths[-1].write_bytes(paths[-1].read_bytes()[:-200]),
}


def made(path: Path, keys: MasterKeys | None = None) -> World:
    """A stream of some segments, closed."""
    world = World(QuickDisk(path), segment_bytes=1_500, keys=keys or MasterKeys())
    world.fill(RECORDS)
    world.log.close(world.now_ms)
    return world


def salvaged(world: World) -> PartitionLog:
    return PartitionLog(world.disk, StreamOptions(segment_bytes=1_500, salvage=True, keys=world.options.keys))


def check(world: World, log: PartitionLog) -> None:
    """What is there has the offset that it had, and the rest is counted; the log goes on behind it."""
    records = drained(log.reader(0))
    assert [record.body for record in records] == numbered(record.offset for record in records)
    assert (len(records) + log.recovered.lost_records, log.committed) == (RECORDS, RECORDS)
    assert log.append(world.now_ms, b"\x00\x00", b"goes on", 0) == RECORDS
    log.commit(world.now_ms)
    log.close(world.now_ms)
    world.log = world.opened()
    again = drained(world.log.reader(0))
    assert [record.offset for record in again] == [*(record.offset for record in records), RECORDS]
    world.log.close(world.now_ms)
    assert verify_partition(world.disk) == []


@pytest.mark.parametrize("keys", [MasterKeys(), MasterKeys(b"k" * 32)], ids=["plain", "encrypted"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_stream_is_repaired(tmp_path: Path, damage: Damage, keys: MasterKeys) -> None:
    world = made(tmp_path, keys)
    damage(world, [world.disk.path / segment.name for segment in world.log.segments])
    log = salvaged(world)
    assert log.recovered.lost_records < RECORDS // 2
    check(world, log)


@settings(max_examples=60, deadline=None)
@given(changes=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.binary(min_size=1, max_size=80)), max_size=4))
def test_whatever_was_overwritten_the_rest_keeps_its_offsets(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[float, float, bytes]]
) -> None:
    world = made(tmp_path_factory.mktemp("stream"))
    files = sorted(world.disk.path.glob("*.log"))  # with its index the last one would lose where it ended
    for which, where, data in changes:
        path = files[int(which * (len(files) - 1))]
        change(path, int(where * (path.stat().st_size - 1)), data)
    check(world, salvaged(world))


def test_nothing_is_written_anew_that_is_whole(tmp_path: Path) -> None:
    world = made(tmp_path)
    before = {path.name: path.stat().st_ino for path in tmp_path.glob("*.log")}
    log = salvaged(world)
    assert log.recovered.lost_records == 0
    assert {path.name: path.stat().st_ino for path in tmp_path.glob("*.log")} == before
    check(world, log)


def test_every_kind_of_reader_goes_past_what_was_lost(tmp_path: Path) -> None:
    world = made(tmp_path)
    change(tmp_path / world.log.segments[1].name, 200)
    log = salvaged(world)
    offsets = [record.offset for record in drained(log.reader(0))]
    (lost,) = set(range(RECORDS)) - set(offsets)
    assert drained(log.reader(lost))[0].offset == lost + 1
    after_ms = 1_000 + 10 * lost
    assert log.find(Start("timestamp", after_ms), world.now_ms) == lost + 1
    columns = BlockColumns(0, RECORDS, {"body"})
    for segment in log.segments:
        data, at = piece(log, segment.base, RECORDS, 1 << 20).data, 0
        while at < len(data):
            head = block_at(data, at)
            assert head is not None
            assert columns.add(data, head.start, head.end, head.first, head.count)
            at = head.end
    assert columns.rows == RECORDS - 1
    log.close(world.now_ms)


def test_a_broker_tells_how_many_records_were_lost(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        clicks = broker.stream("clicks")
        for number in range(5):
            clicks.send(f"body {number}")
    (path,) = tmp_path.glob("streams/*/0/*.log")
    path.write_bytes(path.read_bytes().replace(b"body 2", b"body x"))
    for index in path.parent.glob("*.index"):
        index.unlink()
    with pytest.raises(DamagedJournal, match=r"stream 'clicks', partition 0: .* or start once with salvage"):
        leveret.open(tmp_path)
    with leveret.open(tmp_path, salvage=True) as broker:
        assert broker.recovery is not None
        assert broker.recovery.lost_records == 1
        found = broker.stream("clicks").read(0, "first")
        assert [(record.offset, record.body) for record in found] == [(n, f"body {n}") for n in (0, 1, 3, 4)]
    with leveret.open(tmp_path) as broker:
        assert broker.recovery is not None
        assert (broker.recovery.lost_records, broker.stream("clicks").send("next").offset) == (0, 5)


def test_a_repair_that_was_interrupted_is_made_again(tmp_path: Path) -> None:
    world = made(tmp_path)
    name = world.log.segments[1].name
    change(tmp_path / name, 200)
    (tmp_path / f"{name}.tmp").write_bytes(b"half of it")
    check(world, salvaged(world))
