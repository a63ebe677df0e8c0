"""Puts blocks into segment files: the file side of a commit, one caller at a time.

A write that finds no room is cut back and may be tried again when there is some. Any other failure, and every failed
sync, is final: the kernel may have marked the lost pages clean, and a second sync would report success.

The writer may be interrupted (a signal handler raises in the main thread). The block is then written again, and what
there is of it is cut off first.
"""

import secrets
from contextlib import suppress
from dataclasses import replace

from leveret.storage.disk import NO_ROOM, Disk, NoRoom, create_file, discard, write_all
from leveret.storage.stream.blocks import Block
from leveret.storage.stream.files.recovery import RecoveredStream
from leveret.storage.stream.files.segments import PartitionShare, Segment, pack_header
from leveret.storage.stream.index import Index, index_name, write_index
from leveret.storage.stream.options import StreamOptions
from leveret.storage.stream.producers import Producers
from leveret.storage.stream.sealing import Sealer, key_of


class PartitionWriter:
    """The last segment of a log, and its index."""

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
        """Make everything that was written durable."""
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
