import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from leveret import file_sync
from leveret.core.errors import DataLocked, InvalidArgument
from leveret.storage.disk import Disk, NoRoom, create_file, replace_file
from leveret.storage.options import JournalOptions
from tests.sim.simdisk import SimDisk
from tests.storage.journal.world import FaultyDisk, World


def test_a_second_process_is_told_who_has_the_directory(tmp_path: Path) -> None:
    world = World(tmp_path)
    script = "import sys; from leveret.storage.disk import Disk; Disk(sys.argv[1]).lock()"
    other = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert f"is open in process {os.getpid()}" in other.stderr
    world.close()


def test_a_second_opener_in_the_same_process_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(DataLocked, match=str(os.getpid())):
        World(tmp_path)
    world.close()
    World(tmp_path).close()


def test_a_replaced_file_is_whole_or_the_old_one(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    replace_file(disk, "name", b"old")
    total = len(disk.calls)
    for k in range(1, total + 1):
        disk.calls.clear()
        disk.fail_at = k
        with pytest.raises(OSError, match="Input/output error"):
            replace_file(disk, "name", b"new ", b"content")
        assert (tmp_path / "name").read_bytes() in (b"old", b"new content")
    disk.fail_at = 0
    replace_file(disk, "name", b"new ", b"content")
    assert disk.names() == ["name"]
    assert (tmp_path / "name").read_bytes() == b"new content"


def test_files_are_private(tmp_path: Path) -> None:
    world = World(tmp_path / "data", spare_bytes=4096)
    world.durably()
    world.close()
    assert {file.stat().st_mode & 0o077 for file in (tmp_path / "data").iterdir()} == {0}


def test_free_bytes_is_what_the_system_says(tmp_path: Path) -> None:
    facts = os.statvfs(tmp_path)
    assert 0 < Disk(tmp_path).free_bytes() <= facts.f_blocks * facts.f_frsize


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sync", "sometimes"),
        ("segment_bytes", 1023),
        ("segment_bytes", (1 << 30) + 1),
        ("blob_bytes", 0),
        ("blob_bytes", (8 << 20) + 1),
        ("interval_ms", 0),
        ("cache_bytes", 0),
        ("unwritten_bytes_max", 0),
        ("checkpoint_bytes", 0),
        ("spare_bytes", -1),
        ("disk_free_min_bytes", -1),
    ],
)
def test_options_that_cannot_work_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=name):
        JournalOptions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "cached"), [(None, True), (BlockingIOError(), False), (OSError(errno.EOPNOTSUPP, ""), True)]
)
def test_what_is_in_memory_needs_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None, cached: bool
) -> None:
    disk = Disk(tmp_path)
    fd = disk.open_append("file")
    disk.write(fd, [bytes(200_000)])
    if error is not None:
        monkeypatch.setattr(os, "preadv", Mock(side_effect=error))
    assert disk.is_cached(fd, 200_000, 0) is cached
    disk.close(fd)


def test_a_full_disk_keeps_the_old_file_and_nothing_of_the_new_one() -> None:
    disk = SimDisk(capacity_bytes=10)
    replace_file(disk, "name", b"old")
    with pytest.raises(NoRoom):
        replace_file(disk, "name", bytes(20))
    with pytest.raises(NoRoom):
        create_file(disk, "other", bytes(20))
    assert (disk.names(), disk.read_all("name")) == (["name"], b"old")
    disk.close(create_file(disk, "other", b"new"))
    assert disk.crash(Random(1)).read_all("other") == b"new"


F_FULLFSYNC = 51


class Mac:
    """What the modules os and fcntl are on macOS, where they differ; remembers what was synced, and how."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
        self.calls: list[str] = []
        self._error = error
        missing = ("fdatasync", "posix_fallocate")
        system = {name: value for name, value in vars(os).items() if name not in missing} | {"fsync": self.fsync}
        monkeypatch.setattr(file_sync, "os", SimpleNamespace(**system))
        monkeypatch.setattr(file_sync, "fcntl", SimpleNamespace(F_FULLFSYNC=F_FULLFSYNC, fcntl=self.fcntl))
        monkeypatch.setattr(file_sync, "datasync", file_sync.sync)

    def fsync(self, fd: int) -> None:
        self.calls.append("fsync")
        os.fsync(fd)

    def fcntl(self, fd: int, request: int) -> None:
        assert request == F_FULLFSYNC
        self.calls.append("F_FULLFSYNC")
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("error", "calls"), [(None, {"F_FULLFSYNC"}), (OSError(errno.ENOTSUP, ""), {"F_FULLFSYNC", "fsync"})]
)
def test_macos_syncs_up_to_the_medium_if_the_file_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None, calls: set[str]
) -> None:
    mac = Mac(monkeypatch, error)
    world = World(tmp_path, spare_bytes=2_500_000)
    assert (tmp_path / "SPARE").stat().st_blocks * 512 >= 2_500_000
    mac.calls.clear()
    world.durably(b"kept")
    assert set(mac.calls) == calls
    world.kill()
    again = World(tmp_path)
    assert again.bodies() == {1: {1: b"kept"}}
    again.close()


def test_a_sync_that_fails_on_macos_is_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mac = Mac(monkeypatch, OSError(errno.EIO, "Input/output error"))
    disk = Disk(tmp_path)
    fd = disk.open_append("file")
    with pytest.raises(OSError, match="Input/output error"):
        disk.datasync(fd)
    disk.close(fd)
    assert mac.calls == ["F_FULLFSYNC"]
