"""The simulated disk: it loses what may be lost, and nothing else."""

import errno
from random import Random

import pytest

from leveret.core.errors import DataLocked
from tests.sim.pages import SECTOR_BYTES, Inode, applied, sectors, truncation
from tests.sim.simdisk import SHORT, SimDisk

SEEDS = range(200)


def created(disk: SimDisk, name: str, content: bytes = b"") -> int:
    """A file whose content and name are durable, open for appending."""
    fd = disk.open_append(name)
    disk.write(fd, [content])
    disk.sync(fd)
    disk.sync_dir()
    return fd


def after_crash(disk: SimDisk, name: str) -> set[bytes]:
    """Every content that a file may have after a power cut."""
    return {disk.crash(Random(seed)).read_all(name) for seed in SEEDS}


def names_after_crash(disk: SimDisk) -> set[tuple[str, ...]]:
    """Every directory that may remain after a power cut."""
    return {tuple(disk.crash(Random(seed)).names()) for seed in SEEDS}


def test_synced_content_under_a_synced_name_survives() -> None:
    disk = SimDisk()
    created(disk, "log", b"durable")
    assert after_crash(disk, "log") == {b"durable"}


def test_unsynced_writes_are_kept_lost_or_torn() -> None:
    disk = SimDisk()
    fd = created(disk, "log", b"durable")
    disk.write(fd, [b"-", b"pending"])
    assert disk.read_all("log") == b"durable-pending"
    contents = after_crash(disk, "log")
    assert {b"durable", b"durable-pending"} < contents
    for content in contents:
        assert b"durable-pending".startswith(content.rstrip(b"\0"))
        assert len(content) <= len(b"durable-pending")


def test_sectors_of_one_write_are_lost_on_their_own() -> None:
    disk = SimDisk()
    fd = created(disk, "log")
    disk.write(fd, [b"a" * SECTOR_BYTES + b"b" * SECTOR_BYTES])
    assert b"\0" * SECTOR_BYTES + b"b" * SECTOR_BYTES in after_crash(disk, "log")


def test_sectors_split_at_file_offsets() -> None:
    assert list(sectors(510, b"abcdef")) == [(510, b"ab"), (512, b"cdef")]


@pytest.mark.parametrize(
    ("change", "content"),
    [((0, b"AB"), b"ABcd"), ((4, b"e"), b"abcde"), ((6, b"g"), b"abcd\0\0g"), (truncation(1), b"a")],
)
def test_changes_apply_as_a_file_system_does(change: tuple[int, bytes], content: bytes) -> None:
    assert applied(b"abcd", *change) == content


def test_an_unsynced_truncation_is_kept_or_undone() -> None:
    disk = SimDisk()
    fd = created(disk, "log", b"durable")
    disk.truncate(fd, 3)
    assert after_crash(disk, "log") == {b"dur", b"durable"}


def test_a_synced_file_without_a_synced_name_may_vanish() -> None:
    disk = SimDisk()
    disk.sync(disk.open_append("new"))
    assert names_after_crash(disk) == {(), ("new",)}


def test_a_rename_is_kept_or_undone_as_a_whole() -> None:
    disk = SimDisk()
    created(disk, "old", b"1")
    disk.rename("old", "new")
    assert names_after_crash(disk) == {("old",), ("new",)}
    disk.sync_dir()
    assert names_after_crash(disk) == {("new",)}


def test_an_unlink_is_kept_or_undone() -> None:
    disk = SimDisk()
    created(disk, "log", b"1")
    disk.unlink("log")
    assert disk.names() == []
    assert names_after_crash(disk) == {(), ("log",)}


def test_a_killed_process_leaves_its_writes_in_the_page_cache() -> None:
    disk = SimDisk()
    fd = created(disk, "log", b"1")
    disk.write(fd, [b"2"])
    survivor = disk.killed()
    assert survivor.read_all("log") == b"12"
    assert b"1" in after_crash(survivor, "log")
    survivor.sync(survivor.open_append("log"))
    assert after_crash(survivor, "log") == {b"12"}
    assert b"1" in after_crash(disk, "log"), "the copy must not sync the original"


def test_a_failed_sync_loses_its_pages_though_the_next_one_succeeds() -> None:
    first, second, third = (letter * SECTOR_BYTES for letter in (b"1", b"2", b"3"))
    disk = SimDisk()
    fd = created(disk, "log", first)
    disk.write(fd, [second])
    disk.faults[disk.calls + 1] = errno.EIO
    with pytest.raises(OSError, match=r"Input/output"):
        disk.datasync(fd)
    disk.write(fd, [third])
    disk.datasync(fd)
    assert disk.read_all("log") == first + second + third
    assert after_crash(disk, "log") == {first + bytes(SECTOR_BYTES) + third}


def test_a_sector_is_written_with_what_earlier_writes_put_there() -> None:
    disk = SimDisk()
    fd = created(disk, "log")
    disk.write(fd, [b"1"])
    disk.write(fd, [b"2"])
    assert after_crash(disk, "log") <= {b"", b"\0", b"\0\0", b"1", b"1\0", b"12"}


def test_a_failed_directory_sync_loses_its_changes() -> None:
    disk = SimDisk()
    disk.open_append("log")
    disk.faults[disk.calls + 1] = errno.EIO
    with pytest.raises(OSError, match=r"Input/output"):
        disk.sync_dir()
    disk.sync_dir()
    assert names_after_crash(disk) == {()}


def test_a_full_disk_takes_a_part_and_then_nothing() -> None:
    disk = SimDisk(capacity_bytes=10)
    fd = disk.open_append("log")
    assert disk.write(fd, [b"12345678"]) == 8
    assert disk.write(fd, [b"abcd"]) == 2
    with pytest.raises(OSError, match=r"No space"):
        disk.write(fd, [b"cd"])
    disk.truncate(fd, 4)
    assert disk.free_bytes() == 6


def test_an_unlinked_file_takes_room_until_it_is_closed() -> None:
    disk = SimDisk(capacity_bytes=10)
    fd = disk.open_append("spare")
    disk.allocate(fd, 8)
    disk.unlink("spare")
    assert disk.free_bytes() == 2
    disk.close(fd)
    assert disk.free_bytes() == 10


def test_a_short_write_says_how_much_it_took() -> None:
    disk = SimDisk()
    fd = disk.open_append("log")
    disk.faults[disk.calls + 1] = SHORT
    assert disk.write(fd, [b"1234"]) == 2
    assert disk.write(fd, [b"34"]) == 2
    assert disk.read_all("log") == b"1234"


def test_a_failed_write_may_have_written_a_part() -> None:
    disk = SimDisk()
    fd = disk.open_append("log")
    disk.faults[disk.calls + 1] = errno.EIO
    with pytest.raises(OSError, match=r"Input/output"):
        disk.write(fd, [b"1234"])
    assert disk.read_all("log") == b"12"


def test_a_flip_changes_one_bit() -> None:
    disk = SimDisk()
    created(disk, "log", b"\0" * 64)
    disk.flip(Random(1), "log")
    assert int.from_bytes(disk.read_all("log"), "little").bit_count() == 1
    assert after_crash(disk, "log") == {disk.read_all("log")}


def test_the_hook_sees_the_disk_before_and_after_each_change() -> None:
    disk = SimDisk()
    seen: list[tuple[str, int]] = []
    disk.hook = lambda name: seen.append((name, disk.calls))
    fd = disk.open_append("log")
    disk.write(fd, [b"1"])
    disk.pread(fd, 1, 0)
    assert seen == [("open_append", 0), ("open_append", 1), ("write", 1), ("write", 2)]


def test_a_disk_has_one_owner() -> None:
    disk = SimDisk()
    disk.lock()
    with pytest.raises(DataLocked, match="close the other"):
        disk.lock()
    disk.unlock()
    disk.lock()


def test_missing_names_are_errors() -> None:
    disk = SimDisk()
    with pytest.raises(FileNotFoundError):
        disk.open_read("log")
    with pytest.raises(FileNotFoundError):
        disk.unlink("log")


def test_an_inode_without_pending_changes_has_one_future() -> None:
    inode = Inode(b"1")
    inode.write(1, b"2")
    inode.sync()
    assert (inode.durable, inode.cached, inode.pending) == (b"12", b"12", [])
