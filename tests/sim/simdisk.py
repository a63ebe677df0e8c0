"""A disk in memory that forgets what was not synced, as disks do when the power goes.

It has the methods of leveret.storage.disk.Disk. Files are in pages.py; the directory works in the same way: creations,
links, renames and unlinks are pending until `sync_dir`, and a power cut keeps or undoes each of them on its own.

A sync that fails marks its pages clean, as ext4, XFS and btrfs do: the process still reads the data, the next sync
succeeds, and the data was never written.
"""

import errno
import functools
import os
from collections.abc import Callable, Sequence
from random import Random
from typing import Concatenate, ParamSpec, TypeVar

from leveret.core.errors import DataLocked
from leveret.storage.disk import Bytes, Disk
from tests.sim.pages import Inode, Loss

P = ParamSpec("P")
R = TypeVar("R")

SHORT = -1
"""A fault that writes only a part, beside errno.EIO and errno.ENOSPC."""

Change = dict[str, Inode | None]
"""One directory operation: names that appear (with their file) and names that go."""


def observed(method: Callable[Concatenate["SimDisk", P], R]) -> Callable[Concatenate["SimDisk", P], R]:
    """Count a call that changes the disk, show the disk before and after it, and let it fail when its turn has come."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: "SimDisk", /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.hook(name)
        self.calls += 1
        self.fault = self.faults.pop(self.calls, 0)
        try:
            return method(self, *args, **kwargs)
        finally:
            self.fault = 0
            self.hook(name)

    return call


class SimDisk(Disk):
    """Files and their names, each with what is durable and what is not yet."""

    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.capacity_bytes = capacity_bytes
        self.files: dict[str, Inode] = {}
        self.durable_files: dict[str, Inode] = {}
        self.changes: list[Change] = []
        self.open_files: dict[int, Inode] = {}
        self.next_fd = 3
        self.locked = False
        self.calls = 0
        self.faults: dict[int, int] = {}
        self.fault = 0
        self.failed = False
        self.hook: Callable[[str], None] = lambda name: None

    def crash(self, rng: Random) -> "SimDisk":
        """The disk as it may look after a power cut now."""
        loss = Loss(rng)
        names = dict(self.durable_files)
        for change in self.changes:
            if loss.kept():
                enter(names, change)
        fresh = {id(inode): Inode(loss.content(inode)) for inode in names.values()}
        disk = type(self)(self.capacity_bytes)
        disk.files = {name: fresh[id(inode)] for name, inode in names.items()}
        disk.durable_files = dict(disk.files)
        return disk

    def killed(self) -> "SimDisk":
        """The disk after the process alone died: what was written is in the page cache, and still not durable."""
        everything = [*self.files.values(), *self.durable_files.values()]
        everything += [inode for change in self.changes for inode in change.values() if inode]
        twins = {id(inode): inode.copy() for inode in everything}
        disk = type(self)(self.capacity_bytes)
        disk.files = {name: twins[id(inode)] for name, inode in self.files.items()}
        disk.durable_files = {name: twins[id(inode)] for name, inode in self.durable_files.items()}
        disk.changes = [
            {name: twins[id(inode)] if inode else None for name, inode in change.items()} for change in self.changes
        ]
        return disk

    @property
    def clean(self) -> bool:
        """Whether a power cut now would lose nothing."""
        return not self.changes and not any(inode.pending for inode in self.durable_files.values())

    def flip(self, rng: Random, name: str) -> None:
        """Change one random bit of what a file durably holds."""
        inode = self.files[name]
        content = bytearray(inode.durable)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        inode.durable = inode.cached = bytes(content)

    # The methods of the Disk port.

    @observed
    def open_append(self, name: str) -> int:
        """Open a file for appending; create it when it is missing."""
        self._refuse()
        if name not in self.files:
            self._change({name: Inode()})
        return self._opened(self.files[name])

    def open_read(self, name: str) -> int:
        """Open a file for reading."""
        return self._opened(self._inode(name))

    @observed
    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        """Append buffers; may write less than all of them."""
        inode = self.open_files[fd]
        data = b"".join(buffers)
        if self.fault:
            # A write that fails has often written something.
            data = data[: max(1, len(data) // 2)]
        room = self.free_bytes()
        if room == 0 and data:
            raise self._failure(errno.ENOSPC)
        inode.write(len(inode.cached), data[:room])
        if self.fault > 0:
            raise self._failure(self.fault)
        return len(data[:room])

    @observed
    def datasync(self, fd: int) -> None:
        """Make the content of a file durable."""
        self._sync(self.open_files[fd])

    @observed
    def sync(self, fd: int) -> None:
        """Make the content of a file durable."""
        self._sync(self.open_files[fd])

    @observed
    def truncate(self, fd: int, size: int) -> None:
        """Cut a file, or extend it with zeros."""
        self._refuse()
        self.open_files[fd].truncate(size)

    @observed
    def allocate(self, fd: int, size: int) -> None:
        """Reserve room for a file."""
        self._refuse()
        inode = self.open_files[fd]
        if size - len(inode.cached) > self.free_bytes():
            raise self._failure(errno.ENOSPC)
        inode.truncate(max(size, len(inode.cached)))

    @observed
    def rename(self, old: str, new: str) -> None:
        """Give a file another name, which may be taken."""
        self._refuse()
        self._change({new: self._inode(old), old: None})

    @observed
    def unlink(self, name: str) -> None:
        """Remove a name."""
        self._refuse()
        self._inode(name)
        self._change({name: None})

    @observed
    def sync_dir(self) -> None:
        """Make all names durable."""
        if self.fault:
            self.changes.clear()
            raise self._failure(self.fault)
        for change in self.changes:
            enter(self.durable_files, change)
        self.changes.clear()

    def is_cached(self, fd: int, size: int, offset: int) -> bool:
        return True

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read a part of a file."""
        return self.open_files[fd].cached[offset : offset + size]

    def read_all(self, name: str) -> bytes:
        """Read a whole file."""
        return self._inode(name).cached

    def size(self, name: str) -> int:
        """The length of a file."""
        return len(self._inode(name).cached)

    def names(self) -> list[str]:
        """The names of all files."""
        return sorted(self.files)

    def close(self, fd: int) -> None:
        """Close a file."""
        del self.open_files[fd]

    def free_bytes(self) -> int:
        """The room that is left."""
        held = {id(inode): len(inode.cached) for inode in (*self.files.values(), *self.open_files.values())}
        return max(0, self.capacity_bytes - sum(held.values()))

    def lock(self) -> None:
        """Keep other processes out."""
        if self.locked:
            raise DataLocked("the simulated disk is in use: close the other journal first")
        self.locked = True

    def unlock(self) -> None:
        """Let other processes in."""
        self.locked = False

    def link(self, name: str, directory: str | os.PathLike[str]) -> None:
        """There is no second directory to link into."""
        raise self._failure(errno.EXDEV)

    def _refuse(self) -> None:
        """Raise the fault whose turn it is, before anything has happened."""
        if self.fault > 0:
            raise self._failure(self.fault)

    def _failure(self, code: int) -> OSError:
        """The error that the operating system would raise."""
        self.failed = True
        return OSError(code, os.strerror(code))

    def _sync(self, inode: Inode) -> None:
        """Make pending writes durable, or lose them for good when the sync fails."""
        if self.fault > 0:
            inode.pending.clear()
            raise self._failure(self.fault)
        inode.sync()

    def _inode(self, name: str) -> Inode:
        """The file of a name."""
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self.files[name]

    def _opened(self, inode: Inode) -> int:
        """A new descriptor of a file."""
        self.next_fd += 1
        self.open_files[self.next_fd] = inode
        return self.next_fd

    def _change(self, change: Change) -> None:
        """Change the directory, not yet durably."""
        enter(self.files, change)
        self.changes.append(change)


def enter(names: dict[str, Inode], change: Change) -> None:
    """Apply one directory operation."""
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
