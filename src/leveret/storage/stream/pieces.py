"""Pieces of a log as they lie in its files: whole blocks, for those who take them apart elsewhere."""

from bisect import bisect_left

from leveret.core.errors import InvalidArgument, NotFound
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.files.segments import Segment, holding
from leveret.storage.stream.reader import Readable, SegmentFile, rows_of
from leveret.storage.stream.sealing import decrypted

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
