"""The directory of a partition in a database: the same calls as on a disk.

What is written is in memory until it is synced, as it is in the cache of a system. The end of each file that is
appended to stays in memory; of the rest, chunks that were read last.

    | chunk | chunk | ... | tail: from the begin of the last chunk to the end of the file |
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Sequence

from leveret.journal.disk import Bytes, Disk
from leveret.journal.table_files import Files, Place

CHUNK_BYTES = 256 << 10
CHUNKS_MAX = 64  # of a partition in memory: more than is read ahead at once


class StoredFile:
    """A file, as far as it is in memory."""

    def __init__(self, name: str, size: int) -> None:
        """A file that has so many bytes in the database."""
        self.name = name
        self.size = self.synced = size
        self.tail_start = size
        self.tail = bytearray()
        self.opened = 0
        self.gone = False


class TableDisk(Disk):
    """One partition of a stream in PostgreSQL."""

    def __init__(self, files: Files, place: Place) -> None:
        """Learn which files there are."""
        self._table = files
        self._place = place
        self._files = {name: StoredFile(name, size) for name, size in files.sizes(place).items()}
        self._open: dict[int, StoredFile] = {}
        self._chunks: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._numbers = itertools.count()
        self._mutex = threading.Lock()

    def open_append(self, name: str) -> int:
        """See Disk."""
        file = self._files.setdefault(name, StoredFile(name, 0))
        self._have_tail(file)
        return self._opened(file)

    def open_read(self, name: str) -> int:
        """See Disk; an open file can be read after its name is gone."""
        return self._opened(self._file(name))

    def _opened(self, file: StoredFile) -> int:
        with self._mutex:
            number = next(self._numbers)
            self._open[number] = file
            file.opened += 1
        return number

    def _file(self, name: str) -> StoredFile:
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def _have_tail(self, file: StoredFile) -> None:
        """Have the last chunk of a file in memory: it is appended to."""
        start = file.size - file.size % CHUNK_BYTES
        if file.tail_start > start:
            before = self._table.read(self._place, file.name, start, file.tail_start)
            with self._mutex:
                self._chunks.pop((id(file), start), None)
                file.tail[:0] = before
                file.tail_start = start

    # Writing

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        """See Disk."""
        file = self._open[fd]
        before = file.size
        with self._mutex:
            for buffer in buffers:
                file.tail += buffer
            file.size = file.tail_start + len(file.tail)
        return file.size - before

    def datasync(self, fd: int) -> None:
        """See Disk."""
        self.sync(fd)

    def sync(self, fd: int) -> None:
        """See Disk."""
        file = self._open[fd]
        size = file.size
        if size > file.synced:
            with self._mutex:
                data = file.tail[file.synced - file.tail_start : size - file.tail_start]
            self._table.append(self._place, file.name, file.synced, data)
            file.synced = size
        with self._mutex:
            while len(file.tail) >= 2 * CHUNK_BYTES and file.tail_start + CHUNK_BYTES <= file.synced:
                self._keep(file, file.tail_start, bytes(file.tail[:CHUNK_BYTES]))
                del file.tail[:CHUNK_BYTES]
                file.tail_start += CHUNK_BYTES

    def sync_dir(self) -> None:
        """Names are durable when they are changed."""

    def truncate(self, fd: int, size: int) -> None:
        """See Disk."""
        file = self._open[fd]
        if size < file.synced:
            self._table.cut(self._place, file.name, size)
        with self._mutex:
            self._forget(file)
            del file.tail[max(0, size - file.tail_start) :]
            file.size, file.synced = size, min(size, file.synced)
            file.tail_start = min(file.tail_start, size)
        self._have_tail(file)

    def rename(self, old: str, new: str) -> None:
        """See Disk."""
        file = self._file(old)
        self._table.rename(self._place, old, new)
        with self._mutex:
            replaced = self._files.get(new)
            if replaced is not None:
                self._forget(replaced)
            self._files[new] = self._files.pop(old)
            file.name = new

    def unlink(self, name: str) -> None:
        """See Disk; whoever reads the file reads it to its end."""
        file = self._file(name)
        with self._mutex:
            del self._files[name]
            file.gone = True
            in_use = file.opened > 0
        if not in_use:
            self._remove(file)

    def close(self, fd: int) -> None:
        """See Disk."""
        with self._mutex:
            file = self._open.pop(fd)
            file.opened -= 1
            over = file.gone and not file.opened
        if over:
            self._remove(file)

    def _remove(self, file: StoredFile) -> None:
        with self._mutex:
            self._forget(file)
        if file.name not in self._files:  # unless there is a new one of that name
            self._table.remove(self._place, file.name)

    def allocate(self, fd: int, size: int) -> None:
        """A database needs no room before."""

    # Reading

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """See Disk."""
        file = self._open[fd]
        end = min(offset + size, file.size)
        parts = [self._chunk(file, start) for start in range(offset - offset % CHUNK_BYTES, end, CHUNK_BYTES)]
        first = offset % CHUNK_BYTES
        return b"".join(parts)[first : first + max(0, end - offset)]

    def _chunk(self, file: StoredFile, start: int) -> bytes:
        """The bytes of a file from the begin of a chunk to that of the next one."""
        with self._mutex:
            if start >= file.tail_start:
                at = start - file.tail_start
                return bytes(file.tail[at : at + CHUNK_BYTES])
            known = self._chunks.get((id(file), start))
            if known is not None:
                self._chunks.move_to_end((id(file), start))
                return known
            rest = bytes(file.tail) if file.tail_start < start + CHUNK_BYTES else b""
            end = min(start + CHUNK_BYTES, file.tail_start)
        data = self._table.read(self._place, file.name, start, end) + rest[: start + CHUNK_BYTES - end]
        with self._mutex:
            if len(data) == CHUNK_BYTES or not file.tail:
                self._keep(file, start, data)
        return data

    def _keep(self, file: StoredFile, start: int, data: bytes) -> None:
        self._chunks[id(file), start] = data
        while len(self._chunks) > CHUNKS_MAX:
            self._chunks.popitem(last=False)

    def _forget(self, file: StoredFile) -> None:
        for key in [key for key in self._chunks if key[0] == id(file)]:
            del self._chunks[key]

    def is_cached(self, fd: int, size: int, offset: int) -> bool:
        """See Disk."""
        file = self._open[fd]
        with self._mutex:
            starts = range(offset - offset % CHUNK_BYTES, min(offset + size, file.size), CHUNK_BYTES)
            return all(start >= file.tail_start or (id(file), start) in self._chunks for start in starts)

    def read_all(self, name: str) -> bytes:
        """See Disk."""
        fd = self.open_read(name)
        try:
            return self.pread(fd, self.size(name), 0)
        finally:
            self.close(fd)

    def size(self, name: str) -> int:
        """See Disk."""
        return self._file(name).size

    def names(self) -> list[str]:
        """See Disk."""
        return sorted(self._files)
