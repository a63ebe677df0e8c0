"""Appending and reading: offsets, starts, filters, retention, and that all of it survives a restart."""

from pathlib import Path

import pytest

from leveret.core.errors import InvalidArgument, MessageTooLarge
from leveret.storage.disk import Disk
from leveret.storage.options import StreamOptions
from leveret.storage.stream.blocks import RECORD_BYTES_MAX
from leveret.storage.stream.reader import Start, interval_ms, start_named
from tests.storage.stream.world import HEADER, ROUTE, World, drained, numbered


def test_records_come_back_as_they_were_appended(world: World) -> None:
    assert world.append(b"one", filter_value=b"eu") == 0
    world.now_ms += 5
    assert world.append(b"", producer=b"till", sequence=9) == 1
    world.commit()
    first, second = drained(world.log.reader(0))
    assert (first.offset, first.timestamp_ms, first.route, first.filter_value) == (0, 1_000, ROUTE, b"eu")
    assert (first.header, first.body, first.header_len) == (HEADER, b"one", len(HEADER))
    assert (second.offset, second.timestamp_ms, second.producer, second.sequence) == (1, 1_005, b"till", 9)
    assert (second.header, second.body, second.filter_value) == (HEADER, b"", b"")


def test_nothing_is_read_before_it_is_committed(world: World) -> None:
    world.append(b"one")
    reader = world.log.reader(0)
    assert (reader.at_end, reader.read()) == (True, [])
    world.commit()
    assert [record.body for record in drained(reader)] == [b"one"]


def test_a_reader_goes_on_with_what_is_appended_later(world: World) -> None:
    world.fill(30)
    reader = world.log.reader(0)
    while not reader.at_end:
        reader.read()
    world.append(b"later")
    world.commit()
    assert [record.body for record in drained(reader)] == [b"later"]


@pytest.mark.parametrize("commit_each", [1, 7, 25])
def test_any_offset_can_be_read_from(world: World, commit_each: int) -> None:
    world.fill(60, commit_each)
    assert len(world.log.segments) > 1
    for offset in range(60):
        records = drained(world.log.reader(offset))
        assert [record.offset for record in records] == list(range(offset, 60))
        assert [record.body for record in records] == numbered(range(offset, 60))


def test_a_record_larger_than_a_piece_is_read_whole(world: World) -> None:
    bodies = [b"small", bytes(3 << 20), b"after"]
    for body in bodies:
        world.append(body)
    world.commit()
    assert world.bodies() == bodies


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (Start("first"), 0),
        (Start("last"), 58),
        (Start("next"), 60),
        (Start("offset", 17), 17),
        (Start("offset", 1_000), 60),
        (Start("timestamp", 0), 0),
        (Start("timestamp", 1_000), 0),
        (Start("timestamp", 1_101), 11),
        (Start("timestamp", 1_300), 30),
        (Start("timestamp", 1_590), 59),
        (Start("timestamp", 1_591), 60),
        (Start("interval", 100), 50),
        (Start("interval", 10**9), 0),
    ],
)
def test_starts(world: World, start: Start, offset: int) -> None:
    world.fill(60, commit_each=2)
    assert world.log.find(start, world.now_ms) == offset
    world.restart()
    assert world.log.find(start, world.now_ms) == offset
    world.kill()
    assert world.log.find(start, world.now_ms) == offset


def test_every_time_is_found(world: World) -> None:
    world.fill(60, commit_each=3)
    for number in range(60):
        for early_ms in range(10):
            assert world.log.find(Start("timestamp", 1_000 + 10 * number - early_ms), 0) == number


def test_starts_of_an_empty_stream(world: World) -> None:
    for start in (Start("first"), Start("last"), Start("next"), Start("offset", 5), Start("timestamp", 5)):
        assert world.log.find(start, 0) == 0
    assert world.bodies() == []


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("first", Start("first")),
        ("next", Start("next")),
        (5, Start("offset", 5)),
        ("7D", Start("interval", 7 * 86_400_000)),
        ("1h", Start("interval", 3_600_000)),
        ("30m", Start("interval", 1_800_000)),
    ],
)
def test_starts_by_name(value: str | int, start: Start) -> None:
    assert start_named(value) == start


@pytest.mark.parametrize("text", ["", "h", "1", "1w", "-1h", "1h30m", "1234567890123456789s", "\u0661h", "First"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="for example 7D"):
        interval_ms(text)


@pytest.mark.parametrize("value", [-1, 1 << 63])
def test_offsets_out_of_range_are_refused(value: int) -> None:
    with pytest.raises(InvalidArgument, match="an offset"):
        start_named(value)


def test_time_never_goes_back(world: World) -> None:
    world.append(b"one")
    world.now_ms -= 500
    world.append(b"two")
    world.commit()
    world.restart()
    world.append(b"three")
    world.commit()
    assert [record.timestamp_ms for record in drained(world.log.reader(0))] == [1_000] * 3


def test_filters(world: World) -> None:
    values = [b"eu", b"us", b"", b"asia"]
    for number in range(80):
        world.append(b"body %d" % number, filter_value=values[number // 20])
        if number % 5 == 4:
            world.commit()
    assert world.bodies(wanted=[b"us"]) == numbered(range(20, 40))
    assert world.bodies(wanted=[b"us", b"asia"]) == numbered([*range(20, 40), *range(60, 80)])
    assert world.bodies(wanted=[b"us"], match_unfiltered=True) == numbered(range(20, 60))
    assert world.bodies(wanted=[b"mars"]) == []
    assert world.bodies(offset=30, wanted=[b"us"]) == numbered(range(30, 40))


def test_a_reader_looks_for_a_limited_number_of_values(world: World) -> None:
    values = [b"%d" % number for number in range(257)]
    assert world.bodies(wanted=values[:256]) == []
    with pytest.raises(InvalidArgument, match="up to 256 filter values"):
        world.log.reader(0, values)


def test_limits_of_a_record(world: World) -> None:
    for refused in ({"filter_value": bytes(256)}, {"producer": bytes(256)}):
        with pytest.raises(InvalidArgument, match="shorten them"):
            world.append(b"", **refused)
    for route in (bytes(513), bytes(0x10000)):
        with pytest.raises(InvalidArgument, match="shorten them"):
            world.log.append(0, route, b"")
    with pytest.raises(InvalidArgument, match="longer than the content"):
        world.log.append(0, ROUTE, b"abc", 4)
    with pytest.raises(MessageTooLarge, match="send a reference"):
        world.log.append(0, ROUTE, bytes(RECORD_BYTES_MAX + 1))
    assert world.append(b"", filter_value=bytes(255), producer=bytes(255), sequence=1) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"sync": "sometimes"},
        {"segment_bytes": 1023},
        {"segment_bytes": 3_000_000_001},
        {"block_bytes": 0},
        {"block_bytes": (16 << 20) + 1},
        {"checkpoint_bytes": 0},
        {"interval_ms": 0},
    ],
)
def test_options_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        StreamOptions(**wrong)  # type: ignore[arg-type]


def test_retention_by_bytes_removes_the_oldest_segments(world: World) -> None:
    world.fill(100)
    sizes = [segment.size for segment in world.log.segments]
    assert world.retain(world.now_ms, max_bytes=sum(sizes[-3:])) == len(sizes) - 3
    first = world.log.first_offset
    assert first > 0
    assert world.bodies() == numbered(range(first, 100))
    world.kill()
    assert world.log.first_offset == first
    assert world.bodies(offset=3) == numbered(range(first, 100))


def test_retention_by_age_looks_at_the_newest_record_of_a_segment(world: World) -> None:
    world.fill(100)
    border = world.log.segments[2]
    assert world.retain(border.last_ms + 50, max_age_ms=50) == 2
    assert world.log.first_offset == border.base


def test_one_segment_always_stays(world: World) -> None:
    world.fill(100)
    last = world.log.segments[-1]
    world.retain(world.now_ms + 10**9, max_age_ms=0, max_bytes=0)
    assert world.log.segments == [last]
    world.restart()
    assert world.log.committed == 100


def test_a_reader_finishes_a_segment_that_is_removed(world: World) -> None:
    world.fill(100)
    reader = world.log.reader(0)
    seen = reader.read()
    end = world.log.segments[0].end
    world.retain(world.now_ms, max_bytes=0)
    seen += drained(reader)
    last = world.log.first_offset
    assert [record.offset for record in seen] == [*range(end), *range(last, 100)]


def test_memory_does_not_grow_with_the_number_of_records(tmp_path: Path) -> None:
    world = World(Disk(tmp_path), sync="never")
    for _ in range(40):
        for _ in range(500):
            world.append(bytes(200))
        world.commit()
    index = world.log.last_index
    assert index is not None
    assert len(world.log.segments) > 3
    assert len(index.rows) <= 5
    assert world.log.unwritten_bytes < 100
    world.log.close(0)


def test_syncs_by_policy(tmp_path: Path) -> None:
    def syncs(name: str, **options: object) -> int:
        world = World(Disk(tmp_path / name), **options)
        world.fill(20)
        count = world.log.syncs
        world.log.close(world.now_ms)
        return count

    assert syncs("always") == 20
    assert syncs("interval", sync="interval", interval_ms=100) == 2
    assert syncs("never", sync="never") == 0
