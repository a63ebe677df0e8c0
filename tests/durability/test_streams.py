"""Streams on a disk that fails or is full: nothing goes on as if it had not happened, as for the log."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import leveret
from leveret.storage.stream import store
from tests.durability.conftest import Life
from tests.storage.journal.world import FaultyDisk

SPARE = 65_536


@pytest.fixture
def clicks(life: Life, monkeypatch: pytest.MonkeyPatch) -> leveret.Stream:
    """A stream with one confirmed record, on a disk that does as it is told."""
    monkeypatch.setattr(store, "Disk", FaultyDisk)
    clicks = life.open(spare_bytes=SPARE).stream("clicks")
    clicks.send("confirmed")
    return clicks


def disk_of(stream: leveret.Stream) -> FaultyDisk:
    disk = stream.recorder.logs[0].disk
    assert isinstance(disk, FaultyDisk)
    return disk


@pytest.mark.parametrize("call", ["write", "datasync"])
def test_a_failure_is_the_end_of_the_broker(life: Life, clicks: leveret.Stream, call: str) -> None:
    queue = clicks.broker.queue("orders")
    disk_of(clicks).failing[call] = errno.EIO
    with pytest.raises(leveret.JournalFailed, match="Input/output error; free or repair the disk and restart"):
        clicks.send("lost")
    disk_of(clicks).failing.clear()
    for verb in (lambda: clicks.send("x"), lambda: queue.send("x"), clicks.stats, lambda: clicks.group("g")):
        with pytest.raises(leveret.JournalFailed):
            verb()
    life.opened.pop().close()
    with life.open() as broker:
        found = [record.body for record in broker.stream("clicks").read()]
        assert found in (["confirmed"], ["confirmed", "lost"])  # a record that was never confirmed may be there


def test_what_a_failed_commit_held_is_not_read(clicks: leveret.Stream) -> None:
    with clicks.reader(offset="first") as reader:
        assert len(reader.read()) == 1
        disk_of(clicks).failing["datasync"] = errno.EIO
        with pytest.raises(leveret.JournalFailed):
            clicks.send("lost")
        assert reader.read() == []


def test_on_a_full_disk_the_spare_is_given_up_and_sends_are_refused(
    life: Life, clicks: leveret.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream_disk, log_disk = disk_of(clicks), life.disk
    unlink = log_disk.unlink

    def share_room(name: str) -> None:
        stream_disk.room_bytes += SPARE  # in truth it is one file system
        unlink(name)

    monkeypatch.setattr(log_disk, "unlink", share_room)
    stream_disk.room_bytes = 50
    assert clicks.send("takes the spare").offset == 1
    for _ in range(2):
        with pytest.raises(leveret.DiskFull, match="free space"):
            clicks.send("refused")
    assert [record.body for record in clicks.read()] == ["confirmed", "takes the spare"]


def test_on_a_full_disk_without_a_spare_the_broker_ends(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "Disk", FaultyDisk)
    clicks = life.open().stream("clicks")
    clicks.send("confirmed")
    disk_of(clicks).room_bytes = 50
    with pytest.raises(leveret.JournalFailed):
        clicks.send("no room")
    life.opened.pop().close()
    with life.open() as broker:
        assert [record.body for record in broker.stream("clicks").read()] == ["confirmed"]


def test_what_an_interval_left_is_synced_when_nothing_comes(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "Disk", FaultyDisk)
    clicks = life.open(sync="interval").stream("clicks")
    clicks.send("synced")
    clicks.send("not yet")
    before = disk_of(clicks).calls.count("datasync")
    life.until(lambda: disk_of(clicks).calls.count("datasync") > before)


def test_a_failure_of_retention_ends_the_broker(life: Life, clicks: leveret.Stream) -> None:
    clicks.broker.policy("small", ".*", {"max-length-bytes": 1, "stream-max-segment-size-bytes": 1024})
    disk_of(clicks).failing["unlink"] = errno.EIO
    life.until(lambda: failed_by(lambda: clicks.send(b"." * 1000)))
    disk_of(clicks).failing.clear()


def failed_by(verb: Callable[[], object]) -> bool:
    try:
        verb()
    except leveret.JournalFailed:
        return True
    return False


def test_one_sync_is_for_all_records_that_came_meanwhile(life: Life, clicks: leveret.Stream) -> None:
    before, log_before = disk_of(clicks).calls.count("datasync"), life.disk.calls.count("datasync")
    clicks.send_many([b"x"] * 1_000)
    assert disk_of(clicks).calls.count("datasync") == before + 1
    assert life.disk.calls.count("datasync") == log_before, "the log had nothing to sync"


def test_a_damaged_stream_says_where(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        for _ in range(3):
            broker.stream("clicks").send_many([b"x" * 100] * 100)
    (path,) = tmp_path.rglob("stream-*.log")
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    with leveret.open(tmp_path) as broker, pytest.raises(leveret.DamagedJournal, match=r"stream-0+\.log is damaged"):
        broker.stream("clicks").read()
    (damage,) = leveret.verify(tmp_path)
    assert damage.name == str(path.relative_to(tmp_path))
    assert damage.offset == 64
    path.with_suffix(".index").unlink()
    with pytest.raises(leveret.DamagedJournal, match="stream 'clicks', partition 0"):
        leveret.open(tmp_path)


def test_a_sound_stream_passes_the_full_check(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        stream = broker.stream("clicks", partitions=2, segment_bytes=1 << 10)
        for number in range(30):
            stream.send(b"." * 100, key=str(number))
    assert leveret.verify(tmp_path) == []
