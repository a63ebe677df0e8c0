"""Streams in the tables of a shard: their partitions, and what is left of those that are gone."""

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence

from leveret.storage.disk import TEMPORARY, Bytes, Disk
from leveret.storage.journal.postgres.bounded_reads import Questions, asked
from leveret.storage.journal.postgres.stream_table import (
    NewIndex,
    SegmentAppend,
    SegmentKey,
    StoredSegment,
    StreamTable,
)
from leveret.storage.journal.postgres.table import Unknown
from leveret.storage.stream.files.segments import base_of, segment_name
from leveret.storage.stream.index import SUFFIX, index_name
from leveret.storage.stream.postgres.pages import Changes, Pages, TableFile


class TableDisk(Disk):
    """One partition of a stream in the tables of a shard: the same calls as on a directory.

    Segments are tables and an index is a column beside them, so a file that is to take the place of an index is in
    memory until it is renamed. Nothing waits here: what is written goes with the next commit batch of the journal,
    which the broker waits for.
    """

    keeps_end = False
    tears = False

    def __init__(
        self,
        partition: tuple[int, int],
        files: Iterable[TableFile],
        changes: Changes,
        pages: Pages,
        table: StreamTable,
        on_unlink: Callable[[TableFile], None],
    ) -> None:
        """Use the segments that a partition has; `on_unlink` is told of those that it does not have any more."""
        self._partition = partition
        self._files = {segment_name(file.key.base): file for file in files}
        self._changes = changes
        self._pages = pages
        self._table = table
        self._on_unlink = on_unlink
        self._temporary: dict[str, bytearray] = {}
        self._open: dict[int, TableFile | bytearray] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # around what decides whether a table may be dropped

    @property
    def files(self) -> list[TableFile]:
        return list(self._files.values())

    def open_append(self, name: str) -> int:
        if name.endswith(TEMPORARY):
            return self._opened(self._temporary.setdefault(name, bytearray()))
        if name not in self._files:
            self._files[name] = TableFile(SegmentKey(*self._partition, base_of(name)))
        return self.open_read(name)

    def open_read(self, name: str) -> int:
        """See Disk; the table of a segment that is open is not dropped."""
        with self._lock:
            file = self._file(name)
            file.opened += 1
        return self._opened(file)

    def _opened(self, content: TableFile | bytearray) -> int:
        """A number for something that is open."""
        number = next(self._numbers)
        self._open[number] = content
        return number

    def _file(self, name: str) -> TableFile:
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def _segment(self, fd: int) -> TableFile:
        file = self._open[fd]
        assert isinstance(file, TableFile), "an index is read as a whole"
        return file

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        data = b"".join(buffers)
        content = self._open[fd]
        if isinstance(content, bytearray):
            content += data
        else:
            self._changes.stage(content, SegmentAppend(content.key, content.size, data))
            self._pages.extend(content, data)
        return len(data)

    def datasync(self, fd: int) -> None:
        """The next commit batch makes it durable."""

    def sync(self, fd: int) -> None:
        """The next commit batch makes it durable."""

    def sync_dir(self) -> None:
        """The next commit batch makes it durable."""

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return self._pages.read(self._segment(fd), size, offset)

    def is_cached(self, fd: int, size: int, offset: int) -> bool:
        return self._pages.has(self._segment(fd), size, offset)

    def read_all(self, name: str) -> bytes:
        if not name.endswith(SUFFIX):
            file = self._file(name)
            return self._pages.read(file, file.size, 0)
        file = self._file(segment_name(base_of(name)))
        data = self._changes.index(file) or asked(self._table.index, file.key)
        if data is None:
            raise FileNotFoundError(name)
        return data

    def size(self, name: str) -> int:
        return self._file(name).size

    def truncate(self, fd: int, size: int) -> None:
        """See Disk; only what is not stored yet can be cut."""
        file = self._segment(fd)
        self._changes.unstage(file, size)
        self._pages.cut(file, size)

    def close(self, fd: int) -> None:
        content = self._open.pop(fd)
        if isinstance(content, TableFile):
            with self._lock:
                content.opened -= 1

    def rename(self, old: str, new: str) -> None:
        """See Disk: it is always a new index that gets its name."""
        file = self._file(segment_name(base_of(new)))
        self._changes.stage(file, NewIndex(file.key, bytes(self._temporary.pop(old))))
        file.indexed = True

    def unlink(self, name: str) -> None:
        """See Disk; an index goes with its segment."""
        if name.endswith(TEMPORARY):
            if self._temporary.pop(name, None) is None:
                raise FileNotFoundError(name)
            return
        with self._lock:
            file = self._file(name)
            del self._files[name]
        if self._changes.remove(file):
            self._on_unlink(file)

    def names(self) -> list[str]:
        indexes = [index_name(file.key.base) for file in self.files if file.indexed]
        return sorted([*self._files, *indexes, *self._temporary])

    def forget(self) -> None:
        for file in self.files:
            self._pages.rest(file)


class TableStreamDirectories:
    """The streams of a shard that this process owns; see StreamDirectories."""

    def __init__(self, table: StreamTable, questions: Questions) -> None:
        """Look at what there is: no other process changes it from now on."""
        self._table = table
        self._pages = Pages(table, questions)
        self.changes = Changes(self._pages.stored)
        """What the journal is to store with its commit batches."""
        self._dropping: list[TableFile] = []
        self._found: dict[int, list[StoredSegment]] = {}
        for segment in asked(table.segments):
            self._found.setdefault(segment.key.stream, []).append(segment)
        table.rest()
        self._disks: dict[int, list[TableDisk]] = {}

    @property
    def settled(self) -> bool:
        return self.changes.settled

    def partition(self, stream: int, number: int) -> Disk:
        found = [TableFile(*segment) for segment in self._found.get(stream, ()) if segment.key.partition == number]
        disk = TableDisk((stream, number), found, self.changes, self._pages, self._table, self._dropping.append)
        self._disks.setdefault(stream, []).append(disk)
        return disk

    def numbers(self) -> list[int]:
        return sorted(self._found)

    def sync(self, stream: int) -> None:
        """See StreamDirectories: a stream has tables when it has records."""

    def remove(self, stream: int) -> None:
        """See StreamDirectories; what cannot be removed now goes when the store is opened next."""
        found = self._found.pop(stream, [])
        disks = self._disks.pop(stream, [])
        try:
            forgotten = self._table.forget(stream)
        except Unknown:
            return
        if forgotten:
            files = [file for disk in disks for file in disk.files] if disks else [TableFile(*each) for each in found]
            self._dropping += files

    def tidy(self) -> None:
        """See StreamDirectories: drop tables that are in no stream and that are not read any more."""
        for file in self._dropping[:]:
            if file.opened or self.changes.has(file):
                continue
            try:
                self._table.drop(file.key)
            except Unknown:
                break  # it is in use, or the database does not answer: the next time
            self._dropping.remove(file)
        self._table.rest()

    def close(self) -> None:
        self._table.close()
