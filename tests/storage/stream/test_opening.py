"""Opening a stream again: what is cut, what is refused, and what is made anew."""

import errno
from pathlib import Path

import pytest

from leveret.core.errors import DamagedJournal, DiskFull, JournalFailed, PreconditionFailed, UnknownFormat
from leveret.storage.disk import Disk
from leveret.storage.journal.records import crc32c
from leveret.storage.options import StreamOptions
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.index import index_name
from leveret.storage.stream.log import PartitionLog
from leveret.storage.stream.segments import PartitionShare
from tests.storage.journal.world import FaultyDisk
from tests.storage.stream.world import ROUTE, World, drained, numbered, on_files

ONE_SEGMENT = 1 << 20


@pytest.fixture
def single(tmp_path: Path) -> World:
    """A stream in one segment, of one block for each record, that was killed."""
    world = World(Disk(tmp_path), segment_bytes=ONE_SEGMENT)
    world.fill(20)
    world.log.abandon()
    return world


def change(path: Path, at: int, data: bytes) -> None:
    """Write over a part of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def segment_path(world: World, number: int = -1) -> Path:
    return world.disk.path / world.log.segments[number].name


def test_a_clean_end_is_not_read_again(world: World) -> None:
    world.fill(50)
    world.restart()
    assert (world.log.recovered.read_again_bytes, world.log.recovered.torn_bytes) == (0, 0)
    assert world.bodies() == numbered(range(50))
    world.append(b"more")
    assert world.commit() == 51


def test_killed_again_and_again(world: World) -> None:
    for number in range(30):
        world.append(b"body %d" % number)
        world.commit()
        world.kill()
    assert world.bodies() == numbered(range(30))


@pytest.mark.parametrize("cut_bytes", [1, 40, 70])
def test_a_torn_end_is_cut(single: World, cut_bytes: int) -> None:
    path = segment_path(single)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - cut_bytes)
    log = single.opened()
    assert log.committed == 19
    assert log.recovered.torn_bytes > 0
    log.append(0, ROUTE, b"goes on")
    assert log.commit(0) == 20
    assert [record.offset for record in drained(log.reader(0))] == list(range(20))
    log.close(0)


def test_a_changed_byte_in_what_was_durable_is_refused_with_file_and_offset(single: World) -> None:
    index = single.log.last_index
    assert index is not None
    block_bytes = (index.segment.size - HEADER_BYTES) // 20
    path = segment_path(single)
    change(path, HEADER_BYTES + 5 * block_bytes + 80, b"\xff")
    with pytest.raises(DamagedJournal, match=rf"{path.name} is damaged at offset \d+: restore"):
        single.opened()


@on_files
def test_a_changed_byte_in_a_sealed_segment_is_refused_by_whoever_reads_it(world: World) -> None:
    world.fill(50)
    change(segment_path(world, 0), 200, b"\xff\xff")
    world.restart()
    reader = world.log.reader(0)
    assert [record.body for record in reader.read()] == numbered([0])
    with pytest.raises(DamagedJournal, match=rf"{world.log.segments[0].name} is damaged at offset \d+"):
        reader.read()
    reader.close()
    after = world.log.segments[1].base
    assert world.bodies(after) == numbered(range(after, 50))


@on_files
def test_a_sealed_segment_that_was_cut_is_refused(world: World) -> None:
    world.fill(50)
    path = segment_path(world, 0)
    world.log.abandon()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedJournal, match=f"{path.name} is cut before offset"):
        world.opened()
    path.write_bytes(b"")
    with pytest.raises(DamagedJournal, match=f"{path.name} is damaged at offset 0"):
        world.opened()


@on_files
def test_a_missing_segment_is_refused(world: World) -> None:
    world.fill(50)
    world.log.abandon()
    segment_path(world, 1).unlink()
    with pytest.raises(DamagedJournal, match="the next segment begins with"):
        world.opened()


@on_files
def test_indexes_are_made_anew_when_they_are_removed(world: World) -> None:
    world.fill(50)
    world.append(b"last", producer=b"till", sequence=3)
    world.commit()
    for segment in world.log.segments:
        (world.disk.path / index_name(segment.base)).unlink()
    world.kill()
    assert world.bodies() == [*numbered(range(50)), b"last"]
    assert world.append(b"again", producer=b"till", sequence=3) is None


@on_files
def test_a_damaged_index_is_refused_and_says_what_to_do(world: World) -> None:
    world.fill(50)
    path = world.disk.path / index_name(world.log.segments[0].base)
    whole = path.read_bytes()
    world.log.abandon()
    for wrong in (whole[:-1], whole[:40], b"", whole[:-5] + b"\xff" + whole[-4:]):
        path.write_bytes(wrong)
        with pytest.raises(DamagedJournal, match="remove it, and it is made anew"):
            world.opened()


@on_files
def test_files_of_another_version_are_refused(world: World) -> None:
    world.fill(1)
    world.log.abandon()
    path = segment_path(world)
    newer = path.read_bytes()[:4] + b"\x09" + path.read_bytes()[5 : HEADER_BYTES - 4]
    path.write_bytes(newer + crc32c(newer).to_bytes(4, "little"))
    with pytest.raises(UnknownFormat, match="use the version that wrote it"):
        world.opened()


def test_another_number_of_partitions_is_refused(world: World) -> None:
    world.fill(1)
    with pytest.raises(PreconditionFailed, match="partition 0 of 1, not 0 of 3"):
        PartitionLog(world.disk, world.options, PartitionShare(0, 3))


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, segment_bytes=1 << 10)
    world.fill(30)
    disk.room_bytes = 20
    world.append(b"body 30")
    for _ in range(2):
        with pytest.raises(DiskFull, match="free some space"):
            world.commit()
    with pytest.raises(DiskFull):
        world.append(b"refused")
    assert world.failures == []
    assert world.log.committed == 30
    disk.room_bytes = 1 << 20
    assert world.commit() == 31
    world.append(b"body 31")
    world.restart()
    assert world.bodies() == numbered(range(32))
    world.log.close(0)


def test_retention_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, segment_bytes=1 << 10)
    world.fill(30)
    disk.room_bytes = 0
    world.append(b"body 30")
    with pytest.raises(DiskFull):
        world.commit()
    world.retain(world.now_ms, max_bytes=0)
    assert world.commit() == 31
    world.log.close(0)


@pytest.mark.parametrize("call", ["write", "datasync"])
def test_a_failing_disk_ends_the_log_once(tmp_path: Path, call: str) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk)
    world.fill(3)
    disk.failing[call] = errno.EIO
    world.append(b"lost")
    with pytest.raises(JournalFailed, match="nothing more is accepted"):
        world.commit()
    disk.failing.clear()
    with pytest.raises(JournalFailed):
        world.commit()
    with pytest.raises(JournalFailed):
        world.append(b"more")
    assert len(world.failures) == 1
    world.log.close(0)


def test_what_is_read_again_is_bounded_by_checkpoints(tmp_path: Path) -> None:
    world = World(Disk(tmp_path), segment_bytes=ONE_SEGMENT, checkpoint_bytes=2_000, sync="never")
    world.fill(200)
    world.kill()
    assert 0 < world.log.recovered.read_again_bytes < 2_200
    assert [path.stat().st_size for path in sorted(tmp_path.glob("*.log"))] == [
        segment.size for segment in world.log.segments
    ]
    assert world.bodies() == numbered(range(200))
    world.log.close(0)


def test_a_full_disk_does_not_keep_a_stream_from_opening(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, segment_bytes=ONE_SEGMENT)
    world.fill(20)
    disk.room_bytes = 30
    world.kill()
    assert world.bodies() == numbered(range(20))
    disk.room_bytes = 1 << 20
    world.append(b"body 20")
    world.restart()
    assert world.bodies() == numbered(range(21))
    world.log.close(0)


def test_options_may_change_between_runs(world: World) -> None:
    world.fill(20)
    world.options = StreamOptions(segment_bytes=ONE_SEGMENT)
    world.restart()
    segments = len(world.log.segments)
    world.fill(20)
    assert len(world.log.segments) == segments
