"""Reads a stream from an offset or a time on, in large pieces, one after the other.

A reader keeps its file open: a segment that retention removes meanwhile is read to its end. It holds nothing between
two calls but its place.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from leveret.core.arguments import INTERVAL, UNITS_MS
from leveret.core.consumer_arguments import FILTERS_MAX
from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound
from leveret.core.tables import Timestamp
from leveret.storage.disk import Disk, reading
from leveret.storage.encryption import MasterKeys
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.blocks import HEAD_BYTES, BlockHead, StoredRecord, block_bytes, read_head, records_in
from leveret.storage.stream.index import Index, IndexRows, read_index
from leveret.storage.stream.segments import (
    PIECE_BYTES,
    REMEDY,
    Segment,
    bases,
    damage,
    decrypted,
    holding,
    opened,
    parse_header,
    read_header,
    segment_name,
)

if TYPE_CHECKING:
    from leveret.storage.stream.log import PartitionLog

AHEAD_BYTES = 4 << 20
"""What is read from a slow disk at once, for a caller that cannot wait for it."""


class Readable(Protocol):
    """What can be read like a log."""

    disk: Disk
    keys: MasterKeys
    segments: list[Segment]

    @property
    def committed(self) -> int:
        """The offset after the last record that may be read."""

    @property
    def first_offset(self) -> int:
        """The offset of the oldest record."""

    @property
    def last_index(self) -> Index | None:
        """The index of the last segment, if it is in memory."""

    def opened(self, segment: Segment, position: int) -> "SegmentFile | None":
        """A segment from a position on; None: it was removed or replaced meanwhile, so look for it again."""


class SegmentFile:
    """One segment that is open for reading."""

    def __init__(self, disk: Disk, segment: Segment, position: int = HEADER_BYTES) -> None:
        self._disk = disk
        self.segment = segment
        self.position = position
        self._fd = disk.open_read(segment.name)
        if disk.tears:  # a file, which may have been replaced (PartitionLog.reseal)
            header = parse_header(disk.pread(self._fd, HEADER_BYTES, 0), segment.base)
            if header is not None and header[0] != segment.salt:
                disk.close(self._fd)
                raise FileNotFoundError(f"{segment.name} was replaced by another one")

    def piece(self) -> bytes:
        """Some whole blocks, or what there is of them."""
        left = self.segment.size - self.position
        data = self._disk.pread(self._fd, min(PIECE_BYTES, left), self.position)
        claimed = block_bytes(data, 0)
        if not data:
            raise self.damage(0)
        if len(data) < claimed <= left:
            data = self._disk.pread(self._fd, claimed, self.position)
        return data

    def blocks(self) -> Iterator[tuple[bytes, BlockHead]]:
        """All blocks from here on, each with the piece that it is in; the place is that of the piece meanwhile."""
        while self.position < self.segment.size:
            data, at = self.piece(), 0
            while at < len(data) and (head := self.head(data, at)) is not None:
                yield data, head
                at = head.end
            self.position += at

    @property
    def is_cached(self) -> bool:
        """Whether the next piece comes without waiting for the disk."""
        return self._disk.is_cached(self._fd, min(PIECE_BYTES, self.segment.size - self.position), self.position)

    def head(self, data: bytes, at: int) -> BlockHead | None:
        """The header of a block in a piece; None when the piece ends within it."""
        claimed = block_bytes(data, at)
        left = self.segment.size - self.position - at
        if at and (claimed > len(data) - at or len(data) - at < HEAD_BYTES) and claimed <= left:
            return None
        head = read_head(data, at, self.segment.salt)
        if head is None:
            raise self.damage(at)
        return head

    def damage(self, at: int) -> DamagedJournal:
        return damage(self.segment.name, self.position + at)

    def close(self) -> None:
        self._disk.close(self._fd)


def rows_of(log: Readable, segment: Segment) -> IndexRows:
    """The index of a segment: that of the last one is in memory, others are read."""
    if log.last_index is not None and log.last_index.segment is segment:
        return log.last_index.rows
    index = read_index(log.disk, segment.base, log.keys)
    return index.rows if index is not None and index.segment.salt == segment.salt else IndexRows()


class PartitionReader:
    """A place in a stream, moving forward."""

    def __init__(
        self, log: "PartitionLog", offset: int, wanted: Collection[bytes] | None = None, match_unfiltered: bool = False
    ) -> None:
        """Start at an offset: the oldest record if it is gone, the next one if it is yet to come."""
        if wanted is not None and len(wanted) > FILTERS_MAX:
            raise InvalidArgument(f"a reader looks for up to {FILTERS_MAX} filter values, not {len(wanted)}")
        self._log = log
        self._wanted = None if wanted is None else frozenset(wanted)
        self._match_unfiltered = match_unfiltered
        self._file: SegmentFile | None = None
        self._read_ahead: SegmentFile | None = None
        self._read_until = 0
        self.offset = min(max(offset, log.first_offset), log.committed)

    @property
    def at_end(self) -> bool:
        return self.offset >= self._log.committed

    def read(self) -> list[StoredRecord]:
        """The records of the next piece that match; none when none of them do, or at the end."""
        records: list[StoredRecord] = []
        offset = self.offset
        for data, head in self.blocks():
            found = records_in(data, head, offset, 0, self._wanted, self._match_unfiltered)
            if found is None:
                raise self.damage(head)
            records += found
        return records

    def blocks(self) -> list[tuple[bytes, BlockHead]]:
        """The blocks of the next piece that may match, readable, with the bytes that they are in; none at the end."""
        file = self._open()
        if file is None:
            return []
        data = self._log.shared_piece(file)
        blocks: list[tuple[bytes, BlockHead]] = []
        at = 0
        while at < len(data):
            try:
                head = file.head(data, at)
            except DamagedJournal:
                if not blocks:
                    raise
                break  # what was good comes first
            if head is None or head.first >= self._log.committed:
                break
            if self._may_match(head):
                blocks.append(opened(self._log.keys, data, head))
            at = head.end
            self.offset = max(self.offset, head.first + head.count)
        file.position += at
        return blocks

    def missing(self) -> Callable[[], None] | None:
        """What to do elsewhere, once, so that `blocks` need not wait for the disk; None when it need not."""
        file = self._open()
        if file is None or self._is_near(file) or file.is_cached:
            return None
        self._read_ahead, self._read_until = file, file.position + AHEAD_BYTES
        return partial(read_ahead, self._log.disk, file.segment.name, file.position)

    def _is_near(self, file: SegmentFile) -> bool:
        """Whether the next piece was read ahead, or is the end of the log, which was written just now."""
        if file is self._read_ahead and file.position < self._read_until:
            return True
        at_end = file.segment is self._log.segments[-1] and file.segment.size - file.position < PIECE_BYTES
        return at_end and self._log.disk.keeps_end

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _may_match(self, head: BlockHead) -> bool:
        """Whether a block may have something that is asked for."""
        if head.first + head.count <= self.offset or head.is_lost:
            return False
        return self._wanted is None or head.may_match(self._wanted, self._match_unfiltered)

    def damage(self, head: BlockHead) -> DamagedJournal:
        """What to say about a block whose records are not as long as they say."""
        assert self._file is not None, "a block was read from it"
        return DamagedJournal(f"{self._file.segment.name} is damaged at record {head.first}: {REMEDY}")

    def _open(self) -> SegmentFile | None:
        """The file that holds the next record; None at the end of the stream."""
        if self.at_end:
            return None
        if self._file is not None and self.offset < self._file.segment.end:
            return self._file
        self.close()
        while self._file is None:
            self.offset = max(self.offset, self._log.first_offset)
            segment = holding(self._log.segments, self.offset)
            assert segment is not None
            position = HEADER_BYTES
            if self.offset > segment.base:
                position = rows_of(self._log, segment).before_offset(self.offset)
            # When retention removed it just now: go on with what is the oldest then.
            self._file = self._log.opened(segment, position)
        return self._file


def read_ahead(disk: Disk, name: str, position: int) -> None:
    """Bring a part of a segment into memory before it is read; retention may have removed it."""
    with suppress(FileNotFoundError), reading(disk, name) as fd:
        for at in range(position, position + AHEAD_BYTES, PIECE_BYTES):
            disk.pread(fd, PIECE_BYTES, at)


def offset_at(log: Readable, timestamp_ms: int) -> int:
    """The offset of the first record of a time or later; that of the next one when there is none."""
    file = None
    while file is None:
        segment = next((segment for segment in log.segments if segment.last_ms >= timestamp_ms), None)
        if segment is None:
            return log.committed
        file = log.opened(segment, rows_of(log, segment).before_time(timestamp_ms))
    try:
        for data, head in file.blocks():
            if head.last_ms >= timestamp_ms and not head.is_lost:
                records = records_in(*opened(log.keys, data, head), 0, timestamp_ms)
                if not records:
                    raise file.damage(head.start)
                return min(records[0].offset, log.committed)
    finally:
        file.close()
    return file.segment.end


OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Start:
    """One of the six ways; `value` is an offset, a time or a number of milliseconds."""

    kind: Literal["first", "last", "next", "offset", "timestamp", "interval"]
    value: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.value <= OFFSET_MAX:
            raise InvalidArgument(f"an offset, time or interval is 0 to {OFFSET_MAX}, not {self.value}")


def interval_ms(text: str) -> int:
    """The milliseconds of an interval such as 7D, 1h or 30m."""
    match = INTERVAL.fullmatch(text)
    if match is None:
        raise InvalidArgument(f"an interval is a number and one of {', '.join(UNITS_MS)}, for example 7D; not {text!r}")
    return min(int(match[1]) * UNITS_MS[match[2]], OFFSET_MAX)


def start_named(value: object) -> Start:
    """The start that a text, an offset or a time asks for."""
    if isinstance(value, datetime):
        return Start("timestamp", max(0, round(value.timestamp() * 1000)))
    if isinstance(value, Timestamp):
        return Start("timestamp", min(1000 * value, OFFSET_MAX))
    if isinstance(value, int) and not isinstance(value, bool):
        return Start("offset", value)
    if not isinstance(value, str):
        raise InvalidArgument(f"a start is first, last, next, an offset, a time or an interval, not {value!r}")
    if value in ("first", "last", "next"):
        return Start(value)  # type: ignore[arg-type]
    return Start("interval", interval_ms(value))


PIECE_BYTES_MAX = 32 << 20
"""What one call gives, or one block if that is more: it is in memory as a whole."""


class Piece(NamedTuple):
    """Blocks, and how many of the records that were asked for are in them."""

    data: bytes = b""
    records: int = 0


def piece(log: Readable, offset: int, end: int, bytes_max: int) -> Piece:
    """The blocks from an offset on, decrypted: about so many bytes, of records that are committed and before `end`.

    The first block may begin before the offset and the last one may go on after the end. What is not in the log any
    more is refused: a reader that skipped it would not know.
    """
    if not 1 <= bytes_max <= PIECE_BYTES_MAX:
        raise InvalidArgument(f"a piece has 1 to {PIECE_BYTES_MAX} bytes, not {bytes_max}")
    end = min(end, log.committed)
    if offset >= end:
        return Piece()
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


def _blocks(log: Readable, file: SegmentFile, offset: int, end: int, bytes_max: int) -> Piece:
    parts: list[bytes] = []
    size = records = 0
    for data, head in file.blocks():
        if head.first >= end:
            break
        if head.first + head.count > offset:
            parts.append(decrypted(log.keys, data, head))
            size += len(parts[-1])
            if not head.is_lost:
                records += min(head.first + head.count, end) - max(head.first, offset)
            if size >= bytes_max:
                break
    return Piece(b"".join(parts), records)


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
