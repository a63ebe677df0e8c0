"""Where the partitions of streams lie: a directory each, by the number of the stream and that of the partition.

    streams/17/0/       the first partition of stream 17

A directory is made before the definition of its stream is durable, and removed after its deletion is: what a crash
leaves in between has no definition, and goes when the broker is opened. A broker on PostgreSQL has tables instead
(postgres.py).
"""

import itertools
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from leveret.storage.disk import Bytes, Disk


class MemoryDisk(Disk):
    """A directory in memory, for a broker that keeps nothing: its files are gone with the process."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._open: dict[int, bytearray] = {}
        self._numbers = itertools.count()

    def open_append(self, name: str) -> int:
        return self._opened(self._files.setdefault(name, bytearray()))

    def open_read(self, name: str) -> int:
        """See Disk; an open file can be read after its name is gone."""
        return self._opened(self._file(name))

    def _opened(self, content: bytearray) -> int:
        number = next(self._numbers)
        self._open[number] = content
        return number

    def _file(self, name: str) -> bytearray:
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        content = self._open[fd]
        before = len(content)
        for buffer in buffers:
            content += buffer
        return len(content) - before

    def datasync(self, fd: int) -> None:
        """Nothing is durable here."""

    def sync(self, fd: int) -> None:
        """Nothing is durable here."""

    def sync_dir(self) -> None:
        """Nothing is durable here."""

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(memoryview(self._open[fd])[offset : offset + size])

    def is_cached(self, fd: int, size: int, offset: int) -> bool:
        return True

    def read_all(self, name: str) -> bytes:
        return bytes(self._file(name))

    def size(self, name: str) -> int:
        return len(self._file(name))

    def truncate(self, fd: int, size: int) -> None:
        del self._open[fd][size:]

    def close(self, fd: int) -> None:
        del self._open[fd]

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def unlink(self, name: str) -> None:
        self._file(name)
        del self._files[name]

    def names(self) -> list[str]:
        return sorted(self._files)


class StreamDirectories:
    """Directories for streams; these are in memory, where nothing lasts and nothing waits."""

    @property
    def settled(self) -> bool:
        """Whether nothing waits for the next commit batch of the journal; what is in files does not."""
        return True

    def partition(self, stream: int, number: int) -> Disk:
        """The directory of one partition, made if need be."""
        return MemoryDisk()

    def numbers(self) -> list[int]:
        """The streams that have directories."""
        return []

    def sync(self, stream: int) -> None:
        """Make the directories of a stream durable."""

    def remove(self, stream: int) -> None:
        """Remove a stream with everything in it."""

    def tidy(self) -> None:
        """Do what had to wait."""

    def close(self) -> None:
        """Let go of everything."""


class FileStreamDirectories(StreamDirectories):
    """Directories on a real file system."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def partition(self, stream: int, number: int) -> Disk:
        return Disk(self._path / str(stream) / str(number))

    def numbers(self) -> list[int]:
        if not self._path.exists():
            return []
        return sorted(int(entry.name) for entry in os.scandir(self._path) if entry.name.isdigit())

    def sync(self, stream: int) -> None:
        """See StreamDirectories: from the stream up to the directory that this one is in."""
        for directory in (self._path / str(stream), self._path, self._path.parent):
            Disk(directory).sync_dir()

    def remove(self, stream: int) -> None:
        shutil.rmtree(self._path / str(stream), ignore_errors=True)
