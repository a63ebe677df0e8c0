"""Pieces of a log as they lie in its files: whole blocks, for programs that take them apart elsewhere."""

from bisect import bisect_left

from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound
from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.index import Index, read_index
from leveret.storage.stream.reader import Readable, SegmentFile, rows_of
from leveret.storage.stream.sealing import decrypted
from leveret.storage.stream.segments import Segment, bases, damage, holding, read_header, segment_name

PIECE_BYTES_MAX = 32 << 20
"""What one call gives, or one block if that is more: it is in memory as a whole."""


def piece(log: Readable, offset: int, end: int, bytes_max: int) -> bytes:
    """The blocks from an offset on, decrypted: about so many bytes, of records that are committed and before `end`.

    The first block may begin before the offset and the last one may go on after the end. What is not in the log any
    more is refused: a reader that skipped it would not know.
    """
    if not 1 <= bytes_max <= PIECE_BYTES_MAX:
        raise InvalidArgument(f"a piece has 1 to {PIECE_BYTES_MAX} bytes, not {bytes_max}")
    end = min(end, log.committed)
    if offset >= end:
        return b""
    file = None
    while file is None:
        segment = holding(log.segments, offset)
        if segment is None or offset < segment.base:
            raise gone(log, offset)
        try:
            file = log.opened(segment, _position(log, segment, offset))
        except FileNotFoundError:
            raise gone(log, offset) from None
    try:
        return _blocks(log, file, offset, end, bytes_max)
    finally:
        file.close()


def gone(log: Readable, offset: int) -> NotFound:
    """What to say when retention was quicker."""
    return NotFound(
        f"offset {offset} is gone, the oldest is {log.first_offset}: keep the stream for longer, or read it sooner"
    )


def _blocks(log: Readable, file: SegmentFile, offset: int, end: int, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for data, head in file.blocks():
        if head.first >= end:
            break
        if head.first + head.count > offset:
            parts.append(decrypted(log.keys, data, head))
            size += len(parts[-1])
            if size >= bytes_max:
                break
    return b"".join(parts)


def reach(log: Readable, offset: int, size: int) -> int:
    """The offset after about so many bytes from an offset on: as exact as the index is, and one record at least."""
    offset = max(offset, log.first_offset)
    segment = holding(log.segments, offset)
    while segment is not None and offset < log.committed:
        start = _position(log, segment, offset)
        rows = rows_of(log, segment)
        row = bisect_left(rows.positions, start + size)
        while row < len(rows) and rows.offsets[row] <= offset:
            row += 1
        if row < len(rows):
            return min(rows.offsets[row], log.committed)
        size -= segment.size - start
        offset = segment.end
        if size <= 0 or segment is log.segments[-1]:
            break
        segment = holding(log.segments, offset)
    return min(offset, log.committed)


def _position(log: Readable, segment: Segment, offset: int) -> int:
    """A place in a segment at or before the block of an offset."""
    return HEADER_BYTES if offset <= segment.base else rows_of(log, segment).before_offset(offset)


class LogFiles:
    """The files of one partition that another process may be writing to; they are only read, and nothing is repaired.

    What is after the last good block of the last segment is being written, or was torn by a crash: the log ends before
    it. Anything else that is not as it was written is damage.
    """

    def __init__(self, disk: Disk, keys: MasterKeys) -> None:
        """Look at the segments, and read what the last index does not speak of."""
        self.disk = disk
        self.keys = keys
        self.segments: list[Segment] = []
        self.last_index: Index | None = None
        found = bases(disk)
        for base, after in zip(found, [*found[1:], None], strict=True):
            segment = self._segment(base, after)
            if segment is not None:
                self.segments.append(segment)

    @property
    def committed(self) -> int:
        """The offset after the last record."""
        return self.segments[-1].end if self.segments else 0

    @property
    def first_offset(self) -> int:
        """The offset of the oldest record; of the next one when there is none."""
        return self.segments[0].base if self.segments else 0

    def opened(self, segment: Segment, position: int) -> SegmentFile:
        """See Readable; the files are as they were when this was made, or gone."""
        return SegmentFile(self.disk, segment, position)

    def _segment(self, base: int, after: int | None) -> Segment | None:
        """A segment and how far it goes; None when it is just being made, or has just gone."""
        try:
            parsed = read_header(self.disk, base)
        except FileNotFoundError:
            return None
        if parsed is None:
            if after is None:
                return None
            raise damage(segment_name(base), 0)
        index = read_index(self.disk, base, self.keys) or Index(Segment(base, parsed[0], base))
        if after is None or index.segment.end < after:
            self._go_on(index, after)
        self.last_index = index
        return index.segment

    def _go_on(self, index: Index, after: int | None) -> None:
        """Take in the blocks that no index speaks of."""
        segment = index.segment
        size, segment.size = segment.size, self.disk.size(segment.name)
        file = SegmentFile(self.disk, segment, size)
        try:
            for _, head in file.blocks():
                if head.first != segment.end:
                    raise file.damage(head.start)
                index.rows.note(head.first, file.position + head.start, head.first_ms)
                segment.end, segment.last_ms, size = head.first + head.count, head.last_ms, file.position + head.end
        except DamagedJournal:
            if after is not None:
                raise
        finally:
            segment.size = size
            file.close()
