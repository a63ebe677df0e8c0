"""Bytes of segments in tables, as far as they are in memory: the end of each, and pages that were read lately.

    | page | page | page | tail ........ |
                         ^ tail_start    ^ size

The tail has at least what is not stored yet. It gives up whole pages when it is long, and everything when nothing was
appended for a while; then it begins where the next append does, and grows towards the start when a reader reads there.
"""

import threading
from collections import OrderedDict

from leveret.core.errors import DamagedJournal, JournalFailed
from leveret.storage.disk import Bytes
from leveret.storage.journal.postgres.bounded_reads import Questions, asked
from leveret.storage.journal.postgres.stream_table import SegmentAppend, SegmentKey, StreamTable

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
        """Append to a segment."""
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
        """Whether some bytes are in memory."""
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
