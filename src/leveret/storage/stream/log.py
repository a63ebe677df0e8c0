"""The log of one partition of a stream: appended to, committed, read and cut off at its old end.

    log.append(now_ms, route, content, header_len)      gives the offset; nothing is durable yet
    log.commit(now_ms)                                  now it is: everything before log.committed

Whatever was appended since the last commit goes to the disk together. One thread may append while another commits.
After a failed write or sync nothing more is taken, and `on_failure` is called once. On a full disk commit raises
DiskFull and keeps what it could not write; the next one tries again, and until then nothing more is taken.
"""

import secrets
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from leveret.core.errors import DiskFull, JournalFailed
from leveret.storage.disk import (
    NO_ROOM,
    TEMPORARY,
    Bytes,
    Disk,
    NoRoom,
    create_file,
    discard,
    reading,
    write_all,
    write_beside,
)
from leveret.storage.encryption import KeyRef, MasterKeys
from leveret.storage.journal.commit import stop_process
from leveret.storage.options import StreamOptions
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.blocks import Appender, Block
from leveret.storage.stream.index import Index, IndexRows, Producers, index_name, read_index, write_index
from leveret.storage.stream.reader import PartitionReader, SegmentFile, Start, offset_at
from leveret.storage.stream.recovery import RecoveredStream, recover, salvage
from leveret.storage.stream.segments import (
    Blocks,
    PartitionShare,
    Sealer,
    Segment,
    damage,
    holding,
    key_of,
    pack_header,
    read_header,
)

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
        self.resize, self.abandon = self._writer.resize, self._writer.close
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
        return self._writer.syncs

    @property
    def last_index(self) -> Index | None:
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
        """Encrypt a segment by the first key that is not the last one; `lock` keeps retention away.

            1  write      the same blocks into a file with a temporary name, with another salt; durable
            2  remove     the index of the old segment, durably: its positions are not those of the new one
            3  rename     the new segment takes the place of the old one, durably
            4  index      that of the new segment

        A crash before 3 leaves the old segment, one after it the new one; an index that is missing is made anew when
        the stream is opened. Readers that have the old file open go on in it; those that open one see by its salt that
        the segment they know was replaced.
        """
        copy = written_anew(self.disk, segment, self.keys)
        with lock:
            if not any(each is segment for each in self.segments):
                discard(self.disk, segment.name + TEMPORARY)  # retention was faster
                return
            with self._attempt():
                discard(self.disk, index_name(segment.base))
                self.disk.sync_dir()
                with self._replacing:
                    self.disk.rename(segment.name + TEMPORARY, segment.name)
                    self.segments[self.segments.index(segment)] = copy.segment
                self.disk.sync_dir()
                with suppress(NoRoom):  # then it is made when the stream is opened
                    write_index(self.disk, copy, self.keys)

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

    def close(self, now_ms: int) -> None:
        """Commit, note where the log ends, and let go of the files."""
        try:
            if not isinstance(self.refusal, JournalFailed):
                self.commit(now_ms)
                with suppress(DiskFull):  # then the end is read again when the log is opened
                    self.checkpoint()
        finally:
            self._writer.close()

    def _is_over(self, now_ms: int, max_age_ms: int | None, max_bytes: int | None) -> bool:
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


class PartitionWriter:
    """The last segment of a log, and its index: the file side of a commit, one caller at a time.

    A write that finds no room is cut back and may be tried again when there is some. Any other failure, and every
    failed sync, is final: the kernel may have marked the lost pages clean, and a second sync would report success.

    The writer may be interrupted (a signal handler raises in the main thread). The block is then written again, and
    what there is of it is cut off first.
    """

    def __init__(self, disk: Disk, options: StreamOptions, share: PartitionShare, found: RecoveredStream) -> None:
        segments, last = found.segments, found.last
        self._disk = disk
        self._options = options
        self._share = share
        self._segments = segments
        self.index = last
        self._fd = -1 if last is None else disk.open_append(last.segment.name)
        self._sealer = Sealer(options.keys) if options.keys else None
        self._foreign = last is not None and self._is_foreign(last.segment)
        self._unsynced = self._interrupted = False
        self._checkpoint_size = found.checkpoint_bytes
        self._synced_ms = 0
        self.written = self.synced = segments[-1].end if segments else 0
        self.syncs = 0

    def leave_foreign(self) -> None:
        """Begin a new segment if the last one has blocks of another key: nothing is written to that one any more."""
        if self._foreign and self.index is not None and self.index.segment.end > self.index.segment.base:
            self._begin_segment(self.written)

    def resize(self, segment_bytes: int) -> None:
        if segment_bytes != self._options.segment_bytes:
            self._options = replace(self._options, segment_bytes=segment_bytes)

    def write(self, block: Block) -> None:
        """Write a block, unless that is done; leave nothing of it when there is no room."""
        if block.end <= self.written:
            return
        index = self.index
        if index is None or self._is_full(block, index.segment):
            index = self._begin_segment(block.first)
        segment = index.segment
        if self._interrupted:
            self._disk.truncate(self._fd, segment.size)
        self._unsynced = self._interrupted = True
        try:
            salt, synced = segment.salt, self.synced
            data = block.finish(salt, synced) if self._sealer is None else self._sealer.finished(block, salt, synced)
            write_all(self._disk, self._fd, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._disk.truncate(self._fd, segment.size)
            raise NoRoom(error.errno, error.strerror) from error
        index.add(block, len(data), block.producers or {})
        self.written = block.end
        self._interrupted = False

    def forget(self, producer: bytes) -> None:
        """Forget a producer all of whose records are written."""
        if self.index is not None:
            self.index.producers.forget(producer)

    def sync_if_due(self, now_ms: int) -> None:
        """Make what was written as durable as was asked for."""
        waited_ms = now_ms - self._synced_ms
        due = self._options.sync == "always" or not 0 <= waited_ms < self._options.interval_ms
        if due and self._options.sync != "never":
            self.sync()
            self._synced_ms = now_ms

    def sync(self) -> None:
        if self._unsynced:
            self._disk.datasync(self._fd)
            self._unsynced = False
            self.syncs += 1
        self.synced = self.written

    def checkpoint_if_due(self) -> None:
        """Now and then note how far the segment is durable; without room that has time."""
        size = 0 if self.index is None else self.index.segment.size
        if size - self._checkpoint_size >= self._options.checkpoint_bytes:
            with suppress(NoRoom):
                self.checkpoint()

    def checkpoint(self) -> None:
        """Note durably how far the segment goes, and what its producers sent."""
        if self.index is None:
            return
        self.sync()
        write_index(self._disk, self.index, self._options.keys)
        self._checkpoint_size = self.index.segment.size

    def remove(self, segment: Segment) -> None:
        """Remove the oldest segment, which is not the last one, so that it goes before its successor may."""
        if self._checkpoint_size == 0:
            # Until the last segment has an index, its producers are those of the one before.
            self.checkpoint()
        self._disk.unlink(segment.name)
        self._disk.sync_dir()
        self._segments.remove(segment)
        discard(self._disk, index_name(segment.base))

    def close(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def _is_full(self, block: Block, segment: Segment) -> bool:
        """Whether a block belongs into the next segment."""
        if segment.end == segment.base:
            return False
        return self._foreign or segment.size + block.bytes > self._options.segment_bytes

    def _is_foreign(self, segment: Segment) -> bool:
        """Whether a segment has blocks that another master key encrypts, or none does, or the master key itself."""
        keys = self._options.keys
        key = key_of(self._disk, segment) if keys else None
        return key is not None and not keys.is_current(key)

    def _begin_segment(self, base: int) -> Index:
        """Create the next segment; it is used only once it is durable."""
        # Only the last segment may have a torn tail, and only it may lack an index that speaks of all of it.
        self.checkpoint()
        segment = Segment(base, secrets.randbits(32), base)
        discard(self._disk, segment.name)
        fd = create_file(self._disk, segment.name, pack_header(base, segment.salt, self._share))
        self.close()
        index = Index(segment, producers=Producers() if self.index is None else self.index.producers)
        self._fd, self.index, self._checkpoint_size, self._interrupted = fd, index, 0, False
        self._sealer, self._foreign = Sealer(self._options.keys) if self._options.keys else None, False
        self._segments.append(segment)
        with suppress(NoRoom):
            self.checkpoint()
        return index


def written_anew(disk: Disk, segment: Segment, keys: MasterKeys) -> Index:
    """A copy of a segment that the first key encrypts, beside it; nothing of it is left when that fails."""
    known = read_index(disk, segment.base, keys)
    # It speaks of all of the segment, as of every one but the last.
    producers = Producers() if known is None else known.producers
    copy = Index(Segment(segment.base, secrets.randbits(32), segment.base), IndexRows(), producers)
    try:
        write_beside(disk, segment.name, _sealed_again(disk, segment, copy, keys))
    except BaseException:
        discard(disk, segment.name + TEMPORARY)
        raise
    return copy


def _sealed_again(disk: Disk, segment: Segment, copy: Index, keys: MasterKeys) -> Iterator[Bytes]:
    """The same blocks, encrypted anew, which the index of the copy takes in."""
    header = read_header(disk, segment.base)
    if header is None:
        raise damage(segment.name, 0)
    yield pack_header(segment.base, copy.segment.salt, header[1])
    sealer, end = Sealer(keys), HEADER_BYTES
    with reading(disk, segment.name) as fd:
        blocks = Blocks(disk, fd, segment.size, segment.salt)
        for position, data, head in blocks.following(HEADER_BYTES, segment.base):
            sealed = sealer.sealed_again(keys, data, head, copy.segment.salt)
            yield sealed
            copy.add(head, len(sealed), {})
            end = position + len(data)
    if end < segment.size:
        raise damage(segment.name, end)
