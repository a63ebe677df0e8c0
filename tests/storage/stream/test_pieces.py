"""Pieces of a log as bytes, and what a reader makes of them elsewhere."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound
from leveret.storage.disk import Disk
from leveret.storage.encryption import load_keys
from leveret.storage.stream.blocks import TEXTS, Appender, BlockColumns, StoredRecord, block_at, records_in
from leveret.storage.stream.index import Producers
from leveret.storage.stream.log import PartitionLog
from leveret.storage.stream.reader import PIECE_BYTES_MAX, piece, reach
from tests.storage.stream.world import HEADER, ROUTE, World

EVERYTHING = 1 << 62
KEY = "22" * 32


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def bodies(columns: BlockColumns) -> list[bytes]:
    rows, taken = columns.rows, columns.take()
    ends = memoryview(taken["body_ends"]).cast("i")
    return [taken["body"][ends[row] : ends[row + 1]] for row in range(rows)]


def taken_apart(data: bytes, first: int = 0, end: int = EVERYTHING, wanted: tuple[str, ...] = TEXTS) -> BlockColumns:
    """The columns of blocks, all of which are good."""
    columns = BlockColumns(first, end, wanted)
    at = 0
    while at < len(data):
        head = block_at(data, at)
        assert head is not None
        assert columns.add(data, head.start, head.end, head.first, head.count)
        at = head.end
    return columns


def data_of(log: PartitionLog, first: int, end: int, bytes_max: int) -> bytes:
    """The blocks of a range; it says how many of its records are in them."""
    found = piece(log, first, end, bytes_max)
    columns = taken_apart(found.data, max(first, 0), end) if found.data else None
    assert found.records == (columns.rows if columns else 0)
    return found.data


def numbered(first: int, end: int) -> list[bytes]:
    return [b"body %d" % number for number in range(first, end)]


@pytest.mark.parametrize(("first", "end"), [(0, 100), (0, 1), (37, 41), (99, 100), (50, 200)])
def test_a_range_is_read_from_whole_blocks(disk: Disk, first: int, end: int) -> None:
    world = World(disk, segment_bytes=1 << 20)
    world.fill(100, commit_each=7)
    data = data_of(world.log, first, end, PIECE_BYTES_MAX)
    assert bodies(taken_apart(data, first, end)) == numbered(first, min(end, 100))
    world.log.abandon()


def test_small_pieces_follow_each_other_over_segments(disk: Disk) -> None:
    world = World(disk, segment_bytes=2_000)
    world.fill(100, commit_each=3)
    assert len(world.log.segments) > 3
    found, offset = [], 0
    while data := data_of(world.log, offset, 100, 1):
        columns = taken_apart(data, offset)
        offset += columns.rows
        found += bodies(columns)
    assert found == numbered(0, 100)
    world.log.abandon()


def test_columns_are_those_of_the_records(disk: Disk) -> None:
    world = World(disk)
    world.append(b"one", filter_value=b"red", producer=b"p", sequence=7)
    world.append(b"two")
    world.commit()
    columns = taken_apart(data_of(world.log, 0, 2, 1 << 20))
    assert (columns.rows, columns.size_bytes) == (2, 2 * len(ROUTE) + len(b"redp") + 2 * len(HEADER) + 6)
    taken = columns.take()
    assert memoryview(taken["seq"]).cast("q").tolist() == [0, 1]
    assert memoryview(taken["enqueued_ms"]).cast("q").tolist() == [1_000, 1_000]
    assert memoryview(taken["sequence"]).cast("q").tolist() == [7, -1]
    assert memoryview(taken["bytes"]).cast("q").tolist() == [3, 3]
    assert (taken["route"], taken["filter_value"], taken["producer"]) == (2 * ROUTE, b"red", b"p")
    assert (taken["header"], taken["body"]) == (2 * HEADER, b"onetwo")
    only = taken_apart(data_of(world.log, 0, 2, 1 << 20), wanted=("body",)).take()
    assert set(only) == {"seq", "enqueued_ms", "sequence", "bytes", "body", "body_ends"}
    world.log.abandon()


def test_what_is_not_committed_is_not_given(disk: Disk) -> None:
    world = World(disk)
    world.fill(3)
    world.append(b"later")
    assert taken_apart(data_of(world.log, 0, 9, 1 << 20)).rows == 3
    assert data_of(world.log, 3, 9, 1 << 20) == b""
    world.log.abandon()


def test_what_retention_removed_is_refused(disk: Disk) -> None:
    world = World(disk, segment_bytes=2_000)
    world.fill(100)
    world.retain(world.now_ms, max_bytes=4_000)
    first = world.log.first_offset
    assert first > 0
    with pytest.raises(NotFound, match=f"offset 0 is gone, the oldest is {first}"):
        data_of(world.log, 0, 100, 1 << 20)
    assert bodies(taken_apart(data_of(world.log, first, first + 1, 1), first, first + 1)) == numbered(first, first + 1)
    world.log.abandon()


@pytest.mark.parametrize("size", [0, PIECE_BYTES_MAX + 1])
def test_a_piece_is_bounded(disk: Disk, size: int) -> None:
    world = World(disk)
    with pytest.raises(InvalidArgument, match="a piece has 1 to"):
        data_of(world.log, 0, 1, size)
    world.log.abandon()


def test_an_encrypted_log_is_given_in_plain(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_KEY", KEY)
    world = World(disk, keys=load_keys(None, "STREAM_KEY"))
    world.fill(10, commit_each=4)
    assert bodies(taken_apart(data_of(world.log, 0, 10, 1 << 20))) == numbered(0, 10)
    world.log.abandon()


def test_damage_names_the_file_and_the_offset(tmp_path: Path) -> None:
    world = World(Disk(tmp_path))
    world.fill(3)
    (segment,) = tmp_path.glob("stream-*.log")
    with segment.open("r+b") as file:
        file.seek(64 + 70)
        file.write(b"\xff")
    with pytest.raises(DamagedJournal, match=rf"{segment.name} is damaged at offset 64"):
        data_of(world.log, 0, 3, 1 << 20)
    world.log.abandon()


def test_bytes_reach_an_offset(disk: Disk) -> None:
    world = World(disk, segment_bytes=1 << 20, block_bytes=1 << 10)
    world.now_ms = 0
    for _ in range(3_000):
        world.append(b"x" * 1_000)
    world.commit()
    assert len(world.log.segments) > 2
    offsets = [reach(world.log, 0, size) for size in (1, 300_000, 1_000_000, 2_000_000, 1 << 40)]
    assert offsets == sorted(offsets)
    assert 0 < offsets[0] <= 500
    assert 700 < offsets[2] < 1_300
    assert offsets[-1] == 3_000
    for offset in range(0, 3_000, 77):
        assert offset < reach(world.log, offset, 1) <= offset + 500
    assert reach(world.log, 3_000, 1) == 3_000
    world.log.abandon()


@given(st.binary(max_size=400), st.integers(0, 300), st.integers(0, 400), st.integers(0, 50))
def test_no_bytes_harm_a_reader(data: bytes, start: int, end: int, count: int) -> None:
    assert block_at(data, start) is None
    columns = BlockColumns(0, EVERYTHING, TEXTS)
    columns.add(data, start, end, 0, count)
    assert columns.rows <= count


@given(st.data())
def test_a_changed_block_is_noticed(data: st.DataObject) -> None:
    whole = GOOD
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    assert block_at(changed, 0) is None
    assert block_at(whole[:at], 0) is None


def good_block() -> bytes:
    """A block of three records, alone."""
    appender = Appender(0, 0, 1 << 20, Producers())
    for number in range(3):
        appender.append(number, ROUTE, HEADER + b"body %d" % number, len(HEADER))
    block = appender.oldest()
    assert block is not None
    return bytes(block.finish(5, 0))


GOOD = good_block()


def test_the_good_block_is_good() -> None:
    head = block_at(GOOD, 0)
    assert head is not None
    found: list[StoredRecord] | None = records_in(GOOD, head)
    assert found is not None
    assert bodies(taken_apart(GOOD)) == [record.body for record in found]
