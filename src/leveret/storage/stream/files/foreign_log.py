"""A log that another process may be writing to, as far as it is written: it is only read, and nothing is repaired.

What is after the last good block of the last segment is being written, or was torn by a crash: the log ends before it.
Anything else that is not as it was written is damage.
"""

from leveret.core.errors import DamagedJournal
from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from leveret.storage.stream.files.segments import HEADER_BYTES, REMEDY, Segment, bases, parse_header, segment_name
from leveret.storage.stream.index import Index, read_index
from leveret.storage.stream.reader import SegmentFile


class LogFiles:
    """The files of one partition as they are now."""

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
        name = segment_name(base)
        try:
            fd = self.disk.open_read(name)
        except FileNotFoundError:
            return None
        try:
            parsed = parse_header(self.disk.pread(fd, HEADER_BYTES, 0), base)
        finally:
            self.disk.close(fd)
        if parsed is None:
            if after is None:
                return None
            raise DamagedJournal(f"{name} is damaged at offset 0: {REMEDY}")
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
            while file.position < segment.size:
                self._note(index, file, file.piece())
        except DamagedJournal:
            if after is not None:
                raise
        finally:
            segment.size = file.position
            file.close()

    def _note(self, index: Index, file: SegmentFile, data: bytes) -> None:
        """Take in the blocks of a piece, as far as they are good."""
        segment, at = index.segment, 0
        try:
            while at < len(data) and (head := file.head(data, at)) is not None:
                if head.first != segment.end:
                    raise file.damage(at)
                index.rows.note(head.first, file.position + at, head.first_ms)
                segment.end, segment.last_ms, at = head.first + head.count, head.last_ms, head.end
        finally:
            file.position += at
