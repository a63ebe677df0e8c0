"""The file system as the journal uses it: all that can fail, tear or be lost goes through here.

Names are relative to one flat directory. A simulated disk with the same methods takes the place of this one in tests.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from leveret import file_sync
from leveret.core.errors import DataLocked

LOCK_NAME = "LOCK"
TEMPORARY = ".tmp"
SAMPLE_BYTES = 64 << 10  # systems read ahead in pieces that are larger
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that free space cures."""

Bytes = bytes | bytearray | memoryview


class Disk:
    """One directory of a real file system."""

    keeps_end = True
    """Whether what was written just now is read back without waiting."""
    tears = True
    """Whether a crash may leave a part of what was written, or take it away as long as it was not synced."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Use a directory; it is created when it is missing."""
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock_fd = -1

    def _name(self, name: str) -> str:
        return os.path.join(self.path, name)

    def open_append(self, name: str) -> int:
        """Open a file for appending; create it when it is missing."""
        return os.open(self._name(name), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def open_read(self, name: str) -> int:
        return os.open(self._name(name), os.O_RDONLY | os.O_CLOEXEC)

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        """Append buffers; may write less than all of them."""
        return os.writev(fd, buffers)

    def datasync(self, fd: int) -> None:
        """Make the content of a file durable."""
        file_sync.datasync(fd)

    def sync(self, fd: int) -> None:
        """Make the content and the attributes of a file durable."""
        file_sync.sync(fd)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read a part of a file; may give less at its end."""
        return os.pread(fd, size, offset)

    def is_cached(self, fd: int, size: int, offset: int) -> bool:
        """Whether a part of a file is in memory, as far as some samples tell; True where that is unknown."""
        if not hasattr(os, "RWF_NOWAIT"):
            return True
        byte = [bytearray(1)]
        try:
            for at in (*range(offset, offset + size, SAMPLE_BYTES), max(offset, offset + size - 1)):
                os.preadv(fd, byte, at, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
        return True

    def read_all(self, name: str) -> bytes:
        return Path(self._name(name)).read_bytes()

    def size(self, name: str) -> int:
        return os.stat(self._name(name)).st_size

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        file_sync.allocate(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, which may be taken."""
        os.rename(self._name(old), self._name(new))

    def unlink(self, name: str) -> None:
        os.unlink(self._name(name))

    def link(self, name: str, directory: str | os.PathLike[str]) -> None:
        """Give a file a second name in another directory of the same file system."""
        os.link(self._name(name), os.path.join(directory, name))

    def names(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self.path) if entry.is_file())

    def sync_dir(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            file_sync.sync(fd)
        finally:
            os.close(fd)

    def forget(self) -> None:
        """Free memory that has not been used for a while; the system does so by itself."""

    def free_bytes(self) -> int:
        """The room that is left for this user."""
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize

    def lock(self) -> None:
        """Keep other processes out, or say which one is in."""
        fd = os.open(self._name(LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise DataLocked(
                f"{self.path} is open in process {holder}: stop it, or give this one another directory"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._lock_fd = fd

    def unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


class NoRoom(OSError):
    """There was no room for what was to be written, and nothing is left of it."""


@contextmanager
def undone_without_room(undo: Callable[[], None]) -> Iterator[None]:
    """Do something that takes room; when there is none, undo it and raise NoRoom."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        undo()
        raise NoRoom(error.errno, error.strerror, error.filename) from error


@contextmanager
def reading(disk: Disk, name: str) -> Iterator[int]:
    """A file that is open for reading."""
    fd = disk.open_read(name)
    try:
        yield fd
    finally:
        disk.close(fd)


@contextmanager
def appending(disk: Disk, name: str) -> Iterator[int]:
    """A file that is open for appending; created when it is missing."""
    fd = disk.open_append(name)
    try:
        yield fd
    finally:
        disk.close(fd)


def read_start(disk: Disk, name: str, size: int) -> bytes:
    """The first bytes of a file; fewer when it is shorter."""
    with reading(disk, name) as fd:
        return disk.pread(fd, size, 0)


def write_all(disk: Disk, fd: int, data: Bytes) -> None:
    """Append all of some bytes, however short the single writes are."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(fd, [rest]) :]


def create_file(disk: Disk, name: str, start: Bytes) -> int:
    """Create a file that begins with these bytes, durable with its name, and open it; NoRoom leaves no file."""
    fd = disk.open_append(name)
    try:
        with undone_without_room(lambda: disk.unlink(name)):
            write_all(disk, fd, start)
        disk.sync(fd)
        disk.sync_dir()
    except BaseException:
        disk.close(fd)
        raise
    return fd


def cut_file(disk: Disk, name: str, size: int) -> None:
    """Cut a file durably."""
    with appending(disk, name) as fd:
        disk.truncate(fd, size)
        disk.sync(fd)


def discard(disk: Disk, name: str) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        disk.unlink(name)


def write_beside(disk: Disk, name: str, parts: Iterable[Bytes]) -> None:
    """Write what is to take the place of a file, durably, under a temporary name."""
    discard(disk, name + TEMPORARY)
    with appending(disk, name + TEMPORARY) as fd:
        for part in parts:
            write_all(disk, fd, part)
        disk.sync(fd)


def take_place(disk: Disk, name: str) -> None:
    """Let what was written beside a file take its place, durably."""
    disk.rename(name + TEMPORARY, name)
    disk.sync_dir()


def replace_file(disk: Disk, name: str, *parts: Bytes) -> None:
    """Write a file so that after a crash there is the old one or the whole new one; NoRoom leaves the old one."""
    with undone_without_room(lambda: discard(disk, name + TEMPORARY)):
        write_beside(disk, name, parts)
        take_place(disk, name)


def remove_leftovers(disk: Disk) -> None:
    """Remove files that were being written when the process died."""
    for name in disk.names():
        if name.endswith(TEMPORARY):
            disk.unlink(name)
