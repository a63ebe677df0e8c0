"""Streams in the tables of a shard: partitions with the calls of a directory, and what of them is in memory.

    | page | page | page | tail ........ |
                         ^ tail_start    ^ size

The tail of a segment has at least what is not stored yet. It gives up whole pages when it is long, and everything when
nothing was appended for a while; then it begins where the next append does, and grows towards the start when a reader
reads there.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from leveret.core.errors import DamagedJournal, JournalFailed
from leveret.storage.disk import TEMPORARY, Bytes, Disk
from leveret.storage.journal.postgres.reader import Questions, asked
from leveret.storage.journal.postgres.table import (
    NewIndex,
    Removal,
    SegmentAppend,
    SegmentKey,
    StoredSegment,
    StreamChange,
    StreamTable,
    Unknown,
)
from leveret.storage.stream.index import SUFFIX, index_name
from leveret.storage.stream.segments import base_of, segment_name
from leveret.storage.stream.store import ObjectDisk, StreamDirectories

PAGE_BYTES = 256 << 10
PAGES_MAX = 64
"""Of all streams of a shard together: what a few readers of old records are about to read."""


class TableFile:
    """A segment in a table."""

    __slots__ = ("active", "indexed", "key", "opened", "size", "stored", "tail", "tail_start")

    def __init__(self, key: SegmentKey, size: int = 0, indexed: bool = False) -> None:
        self.key = key
        self.size = self.stored = self.tail_start = size
        self.tail = bytearray()
        self.indexed = indexed
        self.opened = 0
        self.active = False
        """Whether it was appended to since the last look."""


class Pages:
    """The memory of all streams of a shard; for any thread, and no thread waits for the database under its lock."""

    def __init__(self, table: StreamTable, questions: Questions) -> None:
        self._table = table
        self._questions = questions
        self._lock = threading.Lock()
        self._pages: OrderedDict[tuple[SegmentKey, int], bytes] = OrderedDict()

    def extend(self, file: TableFile, data: Bytes) -> None:
        with self._lock:
            file.tail += data
            file.size += len(data)
            file.active = True

    def cut(self, file: TableFile, size: int) -> None:
        """Take back what is not stored."""
        assert size >= file.stored, "what is stored stays"
        with self._lock:
            del file.tail[size - file.tail_start :]
            file.size = size

    def stored(self, file: TableFile, piece: SegmentAppend) -> None:
        """A piece is durable; the tail need not keep it."""
        with self._lock:
            file.stored = piece.start + len(piece.data)
            while file.stored - file.tail_start >= 2 * PAGE_BYTES:
                page, begun = divmod(file.tail_start, PAGE_BYTES)
                size = PAGE_BYTES - begun
                if not begun:
                    self._keep(file, page, bytes(file.tail[:size]))
                del file.tail[:size]
                file.tail_start += size

    def rest(self, file: TableFile) -> None:
        """Free the tail of a segment that is not appended to; to be called now and then."""
        with self._lock:
            if not file.active and file.stored == file.size:
                file.tail = bytearray()
                file.tail_start = file.size
            file.active = False

    def read(self, file: TableFile, size: int, offset: int) -> bytes:
        """Some bytes, from memory or from the table; fewer at the end."""
        end = min(offset + size, file.size)
        found = []
        while offset < end:
            found.append(self._held(file, offset, end) or self._fetched(file, offset, end))
            offset += len(found[-1])
        return found[0] if len(found) == 1 else b"".join(found)

    def has(self, file: TableFile, size: int, offset: int) -> bool:
        end = min(offset + size, file.size, file.tail_start)
        with self._lock:
            return all((file.key, page) in self._pages for page in range(offset // PAGE_BYTES, -(-end // PAGE_BYTES)))

    def _held(self, file: TableFile, offset: int, end: int) -> bytes:
        """What memory has from an offset on, as far as it lies together; empty: nothing."""
        with self._lock:
            if offset >= file.tail_start:
                return bytes(memoryview(file.tail)[offset - file.tail_start : end - file.tail_start])
            page, begun = divmod(offset, PAGE_BYTES)
            data = self._pages.get((file.key, page), b"")
            if data:
                self._pages.move_to_end((file.key, page))
            return data[begun : begun + end - offset]

    def _fetched(self, file: TableFile, offset: int, end: int) -> bytes:
        """The rest of a page from the table; it stays here."""
        start = offset - offset % PAGE_BYTES
        # Of the header alone no page is made: it is read of every segment when a stream is opened.
        stop = min(start + PAGE_BYTES if offset else end, file.tail_start)
        try:
            data = self._questions.ask(asked, self._table.read, file.key, start, stop - start)
        except JournalFailed as error:
            raise _damaged(file, start, str(error)) from error
        if len(data) < stop - start:
            raise _damaged(file, start, "rows are missing")
        with self._lock:
            if len(data) == PAGE_BYTES:
                self._keep(file, start // PAGE_BYTES, data)
            elif file.tail_start == stop < start + PAGE_BYTES:
                file.tail[:0] = data
                file.tail_start = start
        return data[offset - start : end - start]

    def _keep(self, file: TableFile, page: int, data: bytes) -> None:
        """Have a page in memory, instead of the one that was not read for longest."""
        self._pages[file.key, page] = data
        if len(self._pages) > PAGES_MAX:
            self._pages.popitem(last=False)


def _damaged(file: TableFile, offset: int, why: str) -> DamagedJournal:
    """The error that names the place of what cannot be read."""
    stream, partition, base = file.key
    where = f"segment {base} of partition {partition} of stream {stream} in PostgreSQL"
    return DamagedJournal(f"{where} is damaged at offset {offset}: {why}; restore a backup")


Entry = tuple[TableFile, StreamChange]


class Changes:
    """Changes to all streams of a shard that are not stored yet: they go with the next commit batch of the journal.

    staged      by those who append, seal and remove, in their order
    taken       sent with a commit batch whose outcome is not known yet; one that is sent again has the same

    Beside of leveret.storage.journal.postgres.table is what the journal sees of it.
    """

    def __init__(self, on_stored: Callable[[TableFile, SegmentAppend], None]) -> None:
        """Start with none; tell of every piece that is durable."""
        self._on_stored = on_stored
        self._lock = threading.Lock()
        self._staged: list[Entry] = []
        self._taken: list[Entry] | None = None

    @property
    def settled(self) -> bool:
        return not self._staged and not self._taken

    def stage(self, file: TableFile, change: StreamChange) -> None:
        """Store a change with the next commit batch."""
        with self._lock:
            self._staged.append((file, change))

    def unstage(self, file: TableFile, start: int) -> None:
        """Store nothing of a file that was staged from a position on."""
        with self._lock:
            self._staged = [
                (other, change)
                for other, change in self._staged
                if other is not file or not (isinstance(change, SegmentAppend) and change.start >= start)
            ]

    def remove(self, file: TableFile) -> bool:
        """Store nothing more of a file, and remove it with the next commit batch; False: it is not stored, and never
        will be.

        What was taken is stored, or will be: then it has to be removed, too.
        """
        with self._lock:
            self._staged = [entry for entry in self._staged if entry[0] is not file]
            there = bool(file.stored) or any(other is file for other, _ in self._taken or ())
            if there:
                self._staged.append((file, Removal(file.key)))
            return there

    def has(self, file: TableFile) -> bool:
        return any(other is file for other, _ in self._all())

    def index(self, file: TableFile) -> bytes | None:
        """The newest index of a file, if it is not stored yet."""
        found = [change.data for other, change in self._all() if other is file and isinstance(change, NewIndex)]
        return bytes(found[-1]) if found else None

    def _all(self) -> list[Entry]:
        with self._lock:
            return [*(self._taken or ()), *self._staged]

    # Beside

    def take(self) -> list[StreamChange]:
        with self._lock:
            if self._taken is None:
                self._taken, self._staged = self._staged, []
            return [change for _, change in self._taken]

    def stored(self) -> None:
        for file, change in self._taken or ():
            if isinstance(change, SegmentAppend):
                self._on_stored(file, change)
        with self._lock:
            self._taken = None  # only now: until its file is known to be stored, a change counts as on its way


class TableDisk(ObjectDisk[TableFile]):
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
        super().__init__({segment_name(file.key.base): file for file in files})
        self._changes = changes
        self._pages = pages
        self._table = table
        self._on_unlink = on_unlink
        self._temporary: dict[str, bytearray] = {}
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


class TableStreamDirectories(StreamDirectories):
    """The streams of a shard that this process owns."""

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
