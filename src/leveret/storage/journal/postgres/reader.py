"""Reads records back from a table: a piece of a segment at once, encrypted commit batches decrypted whole."""

from leveret.core.errors import DamagedJournal, JournalFailed
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.entries import read_head
from leveret.storage.journal.files.segments import FRAME_HEADER_BYTES, WINDOW_BYTES, SegmentHeader, parse_header
from leveret.storage.journal.postgres.bounded_reads import Questions, asked
from leveret.storage.journal.postgres.table import FIRST_START, SegmentRow, ShardTable
from leveret.storage.segments import HEADER_BYTES


class TableReader:
    """The records of a log in a table."""

    def __init__(self, table: ShardTable, keys: MasterKeys, questions: Questions) -> None:
        self._table = table
        self._keys = keys
        self._questions = questions
        self._headers: dict[int, SegmentHeader] = {}

    def window(self, segment: int, offset: int, size: int, end: int) -> tuple[int, bytes]:
        """Some bytes of a segment around a record, and the offset of the first; rows are never seen half."""
        try:
            return self._questions.ask(self._window, segment, offset, size)
        except JournalFailed as error:
            raise damaged(segment, offset, str(error)) from error

    def _window(self, segment: int, offset: int, size: int) -> tuple[int, bytes]:
        if not self.header(segment).key.is_plain:
            return self._decrypted(segment, offset)
        return asked(self._table.window, segment, offset, max(size, WINDOW_BYTES))

    def header(self, segment: int) -> SegmentHeader:
        """The header of a segment."""
        found = self._headers.get(segment)
        if found is None:
            stored = asked(self._table.header, segment)
            found = None if stored is None else parse_header(stored, segment)
            if found is None:
                raise damaged(segment, FIRST_START, "its header is missing or damaged")
            self._headers[segment] = found
        return found

    def forget(self, segment: int) -> None:
        """A segment was removed."""
        self._headers.pop(segment, None)

    def whole(self, segment: int) -> bytes:
        """All bytes of a segment, as they would lie in a file."""
        header = self.header(segment)
        return b"".join([header.pack(), *(row.data for row in self.rows(segment, HEADER_BYTES))])

    def rows(self, segment: int, start: int) -> list[SegmentRow]:
        """The commit batches of a segment from an offset on, which follow each other without a gap."""
        found: list[SegmentRow] = []
        while more := asked(self._table.rows, segment, start, WINDOW_BYTES):
            found += more
            start = more[-1].start + len(more[-1].data)
        return found

    def _decrypted(self, segment: int, offset: int) -> tuple[int, bytes]:
        """The bodies of the encrypted commit batch that holds an offset."""
        row = asked(self._table.batch, segment, offset)
        header = self.header(segment)
        head = None if row is None else read_head(row.data, 0, header.salt)
        if row is None or head is None:
            raise damaged(segment, offset, "there is no whole frame")
        stored = bytes(row.data)
        plain = header.opened(self._keys, head.seq, stored[FRAME_HEADER_BYTES:], stored[8:FRAME_HEADER_BYTES])
        return row.start + FRAME_HEADER_BYTES, plain[: head.body_len]


def damaged(segment: int, offset: int, why: str) -> DamagedJournal:
    """The error that names the place of what cannot be read."""
    return DamagedJournal(f"segment {segment} in PostgreSQL is damaged at offset {offset}: {why}; restore a backup")
