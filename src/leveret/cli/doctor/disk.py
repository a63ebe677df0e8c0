"""A directory that is only looked at: whatever would change it does nothing, and every byte that is read is counted."""

import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from leveret.core.errors import NotFound
from leveret.storage.disk import LOCK_NAME, Bytes, Disk

NOWHERE = -1
PID_BYTES_MAX = 20


class LookedAt(Disk):
    """Takes the place of a disk. Recovery repairs what it reads: here it repairs nothing but its own memory."""

    def __init__(self, path: Path, progress: Callable[[int], None] = lambda count: None) -> None:
        """Look at a directory; `progress` hears of each number of bytes that was read."""
        if not path.is_dir():
            raise NotFound(f"there is no directory {path}: name the data directory of a server")
        self.path = path
        self._lock_fd = NOWHERE
        self._progress = progress

    def read_all(self, name: str) -> bytes:
        data = super().read_all(name)
        self._progress(len(data))
        return data

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        self._progress(len(data))
        return data

    def holder(self) -> int | None:
        """The process that has the directory open; None when there is none."""
        try:
            fd = os.open(self._name(LOCK_NAME), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            told = os.pread(fd, PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
            return int(told) if told.isdigit() else 0
        finally:
            os.close(fd)
        return None

    # What would change something

    def open_append(self, name: str) -> int:
        return NOWHERE

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        return sum(len(each) for each in buffers)

    def sync(self, fd: int) -> None:
        """See Disk."""

    def sync_dir(self) -> None:
        """See Disk."""

    def truncate(self, fd: int, size: int) -> None:
        """See Disk."""

    def rename(self, old: str, new: str) -> None:
        """See Disk."""

    def unlink(self, name: str) -> None:
        """See Disk."""

    def close(self, fd: int) -> None:
        if fd != NOWHERE:
            super().close(fd)
