"""A directory in memory, for streams of a broker that keeps nothing: the same calls as on a disk."""

import itertools
from collections.abc import Sequence

from leveret.storage.disk import Bytes, Disk


class MemoryDisk(Disk):
    """Files that are gone with the process."""

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
        """A number for an open file."""
        number = next(self._numbers)
        self._open[number] = content
        return number

    def _file(self, name: str) -> bytearray:
        """The content of a name."""
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
