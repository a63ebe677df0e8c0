"""A log that another process may be writing to, as far as it is written: it is only read, and nothing is repaired.

What is after the last good block of the last segment is being written, or was torn by a crash: the log ends before it.
Anything else that is not as it was written is damage.
"""

from leveret.core.errors import DamagedJournal
from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from leveret.storage.stream.files.segments import Segment, bases, damage, read_header, segment_name
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
