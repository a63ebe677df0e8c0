"""The log of one partition of a stream: appended to, committed, read and cut off at its old end.

    log.append(now_ms, route, content, header_len)      gives the offset; nothing is durable yet
    log.commit(now_ms)                                  now it is: everything before log.committed

Whatever was appended since the last commit goes to the disk together. One thread may append while another commits.
After a failed write or sync nothing more is taken, and `on_failure` is called once. On a full disk commit raises
DiskFull and keeps what it could not write; the next one tries again, and until then nothing more is taken.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from leveret.core.errors import DiskFull, JournalFailed
from leveret.storage.disk import TEMPORARY, Disk, NoRoom, discard
from leveret.storage.encryption import KeyRef
from leveret.storage.journal.commit import stop_process
from leveret.storage.stream.appender import Appender
from leveret.storage.stream.files.recovery import recover
from leveret.storage.stream.files.resealing import make_way, settle, written_anew
from leveret.storage.stream.files.salvage import salvage
from leveret.storage.stream.files.segments import PartitionShare, Segment, holding
from leveret.storage.stream.files.writer import PartitionWriter
from leveret.storage.stream.index import Index
from leveret.storage.stream.options import StreamOptions
from leveret.storage.stream.producers import Producers
from leveret.storage.stream.reader import PartitionReader, SegmentFile, offset_at
from leveret.storage.stream.sealing import key_of
from leveret.storage.stream.starts import Start

UNWRITTEN_BYTES_MAX = 64 << 20
SHARED_BYTES_MAX = 256 << 10
"""Of the end that is kept for other readers: each partition may have so much."""


class PartitionLog(Appender):
    """One partition on one directory, which no other process writes to."""

    def __init__(
        self,
        disk: Disk,
        options: StreamOptions,
        share: PartitionShare | None = None,
        on_failure: Callable[[JournalFailed], None] = stop_process,
    ) -> None:
        share = share or PartitionShare()
        lost_records = salvage(disk, share, options.keys) if options.salvage else 0
        found = replace(recover(disk, share, options.keys), lost_records=lost_records)
        segments = found.segments
        end = segments[-1].end if segments else 0
        last_ms = max((segment.last_ms for segment in segments), default=0)
        written = Producers() if found.last is None else found.last.producers
        super().__init__(end, last_ms, options.block_bytes, written.copy())
        self.disk = disk
        self.keys = options.keys
        self.segments = segments
        self.recovered = found
        self._on_failure = on_failure
        self._writer = PartitionWriter(disk, options, share, found)
        self.last_block = max((segment.last_block for segment in segments), default=0)
        self.committed = end
        self._forgotten: deque[bytes] = deque()
        self._replacing = threading.Lock()
        self._shared: tuple[tuple[int, ...], bytes] | None = None

    @property
    def first_offset(self) -> int:
        """The offset of the oldest record; of the next one when there is none."""
        return self.segments[0].base if self.segments else self.committed

    @property
    def size_bytes(self) -> int:
        """What the log takes on the disk, without its indexes."""
        return sum(segment.size for segment in self.segments)

    @property
    def syncs(self) -> int:
        """How often the disk was waited for."""
        return self._writer.syncs

    @property
    def last_index(self) -> Index | None:
        """What is known of the last segment."""
        return self._writer.index

    @property
    def behind(self) -> bool:
        """Whether so much waits to be written that publishers should wait."""
        return self.unwritten_bytes > UNWRITTEN_BYTES_MAX

    def commit(self, now_ms: int) -> int:
        """Write what was appended and let it be read; everything before the result is as durable as was asked for."""
        self.write(now_ms)
        return self.reveal()

    def write(self, now_ms: int) -> None:
        """Write what was appended, and make it as durable as was asked for, or as the next commit batch of the
        journal.
        """
        try:
            with self._attempt():
                while (block := self.oldest()) is not None:
                    self._writer.write(block)
                    self.wrote()
                while self._forgotten:
                    self._writer.forget(self._forgotten.popleft())
                self._writer.sync_if_due(now_ms)
                self._writer.checkpoint_if_due()
        except DiskFull as full:
            self.refusal = full
            raise
        self.refusal = None

    def reveal(self) -> int:
        """Let readers have all that was written; gives the offset after it."""
        self.committed = self._writer.written
        self.last_block = max((segment.last_block for segment in self.segments[-2:]), default=0)
        return self.committed

    def forget(self, producer: bytes) -> None:
        """Forget a producer whose last record was committed; the next commit does so on the disk."""
        if self.producers.forget(producer):
            self._forgotten.append(producer)

    def sync_if_due(self, now_ms: int) -> None:
        """Sync what was written and left to an interval, when nothing came after it."""
        with self._attempt():
            self._writer.sync_if_due(now_ms)

    def checkpoint(self) -> None:
        """Note durably where the log ends: what is before needs no reading when it is opened, and no proof."""
        with self._attempt():
            self._writer.checkpoint()

    def retain(self, now_ms: int, max_age_ms: int | None = None, max_bytes: int | None = None) -> int:
        """Remove the oldest segments that are too old, or too much; give their number. The last one stays."""
        removed = 0
        while len(self.segments) > 1 and self._is_over(now_ms, max_age_ms, max_bytes):
            with self._attempt():
                self._writer.remove(self.segments[0])
            removed += 1
        return removed

    def foreign_segments(self) -> list[tuple[Segment, KeyRef]]:
        """The segments that the first key does not encrypt, with the key of each; all of them may be read."""
        found = [(segment, key_of(self.disk, segment)) for segment in self.segments[:]]
        return [(segment, key) for segment, key in found if key is not None and not self.keys.is_current(key)]

    def leave_foreign(self) -> None:
        """Write no more to a segment that the first key does not encrypt."""
        with self._attempt():
            self._writer.leave_foreign()

    def reseal(self, segment: Segment, lock: AbstractContextManager[object]) -> None:
        """Encrypt a segment by the first key that is not the last one; `lock` keeps retention away."""
        copy = written_anew(self.disk, segment, self.keys)
        with lock:
            if not any(each is segment for each in self.segments):
                discard(self.disk, segment.name + TEMPORARY)  # retention was faster
                return
            with self._attempt():
                make_way(self.disk, segment)
                with self._replacing:
                    self.disk.rename(segment.name + TEMPORARY, segment.name)
                    self.segments[self.segments.index(segment)] = copy.segment
                settle(self.disk, copy, self.keys)

    def opened(self, segment: Segment, position: int) -> SegmentFile | None:
        """See Readable: a file and what is known of it do not change in between."""
        with self._replacing:
            try:
                return SegmentFile(self.disk, segment, position) if self._has(segment) else None
            except FileNotFoundError:
                if self._has(segment):
                    raise
                return None  # retention removed it just now

    def _has(self, segment: Segment) -> bool:
        return holding(self.segments, segment.base) is segment

    def find(self, start: Start, now_ms: int) -> int:
        """The offset that a reader starts at."""
        if start.kind == "timestamp":
            return offset_at(self, start.value)
        if start.kind == "interval":
            return offset_at(self, max(0, now_ms - start.value))
        named = {"first": self.first_offset, "last": self.last_block, "next": self.committed, "offset": start.value}
        return min(max(named[start.kind], self.first_offset), self.committed)

    def reader(
        self, offset: int, wanted: Collection[bytes] | None = None, match_unfiltered: bool = False
    ) -> PartitionReader:
        """Read from an offset on: all records, or those with one of these filter values."""
        return PartitionReader(self, offset, wanted, match_unfiltered)

    def shared_piece(self, file: SegmentFile) -> bytes:
        """What a reader reads next; those who are at the same place get the same bytes."""
        place = (file.segment.base, file.segment.salt, file.position, file.segment.size)
        shared = self._shared
        if shared is not None and shared[0] == place:
            return shared[1]
        data = file.piece()
        if len(data) <= SHARED_BYTES_MAX:
            self._shared = place, data
        return data

    def forget_shared(self) -> None:
        """Free what is probably not read again."""
        self._shared = None
        self.disk.forget()

    def resize(self, segment_bytes: int) -> None:
        """Let segments be of another size from the next block on."""
        self._writer.resize(segment_bytes)

    def close(self, now_ms: int) -> None:
        """Commit, note where the log ends, and let go of the files."""
        try:
            if not isinstance(self.refusal, JournalFailed):
                self.commit(now_ms)
                with suppress(DiskFull):  # then the end is read again when the log is opened
                    self.checkpoint()
        finally:
            self._writer.close()

    def abandon(self) -> None:
        """Let go of the files and leave everything as it is."""
        self._writer.close()

    def _is_over(self, now_ms: int, max_age_ms: int | None, max_bytes: int | None) -> bool:
        """Whether the oldest segment is to go."""
        if max_age_ms is not None and self.segments[0].last_ms < now_ms - max_age_ms:
            return True
        return max_bytes is not None and self.size_bytes > max_bytes

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        """Do something to the disk, once; any error of it but a lack of room ends the log."""
        if isinstance(self.refusal, JournalFailed):
            raise JournalFailed(str(self.refusal))
        try:
            yield
        except NoRoom as error:
            raise DiskFull("no room for the stream: free some space, or keep less in it") from error
        except OSError as error:
            self.refusal = JournalFailed(
                f"the stream stopped, nothing more is accepted: {error}; free or repair the disk and restart"
            )
            self._on_failure(self.refusal)
            raise self.refusal from error
