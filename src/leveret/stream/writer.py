"""Puts blocks into segment files: the file side of a commit, one caller at a time.

A write that finds no room is cut back and may be tried again when there is some. Any other failure, and every failed
sync, is final: the kernel may have marked the lost pages clean, and a second sync would report success.
"""

import errno
import secrets
from contextlib import suppress

from leveret.journal.disk import NO_ROOM, TEMPORARY, Disk, write_all
from leveret.stream.blocks import Block
from leveret.stream.index import Index, index_name, write_index
from leveret.stream.options import StreamOptions
from leveret.stream.producers import Producers
from leveret.stream.recovery import Recovered
from leveret.stream.segments import Segment, Share, pack_header, segment_name


class NoRoom(OSError):
    """There was no room for a write, and nothing is left of it."""


class Writer:
    """The last segment of a log, and its index."""

    def __init__(self, disk: Disk, options: StreamOptions, share: Share, found: Recovered) -> None:
        """Go on in the last segment, if there is one."""
        segments, last = found.segments, found.last
        self._disk = disk
        self._options = options
        self._share = share
        self._segments = segments
        self._index = last
        self._fd = -1 if last is None else disk.open_append(last.segment.name)
        self._unsynced = False
        self._checkpoint_size = found.checkpoint_bytes
        self._synced_ms = 0
        self.written = self.synced = segments[-1].end if segments else 0
        self.syncs = 0

    def commit(self, block: Block) -> None:
        """Write a block; leave nothing of it when there is no room."""
        if self._index is None or self._is_full(block):
            self._begin_segment(block)
        assert self._index is not None
        segment, rows = self._index.segment, self._index.rows
        self._unsynced = True
        try:
            write_all(self._disk, self._fd, block.finish(segment.salt, self.synced))
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._disk.truncate(self._fd, segment.size)
            raise NoRoom(error.errno, error.strerror) from error
        rows.note(block.first, segment.size, block.first_ms)
        if segment.end == segment.base:
            segment.first_ms = block.first_ms
        segment.last_ms = block.last_ms
        segment.last_block = block.first
        segment.size += block.bytes
        self.written = segment.end = block.end
        for producer, sequence in (block.producers or {}).items():
            self._index.producers.note(producer, sequence, block.last_ms)

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
        if self._index is None or self._index.segment.size - self._checkpoint_size < self._options.checkpoint_bytes:
            return
        with suppress(NoRoom):
            self.checkpoint()

    def checkpoint(self) -> None:
        """Note durably how far the segment goes, and what its producers sent."""
        if self._index is None:
            return
        self.sync()
        try:
            write_index(self._disk, self._index)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._disk.unlink(index_name(self._index.segment.base) + TEMPORARY)
            raise NoRoom(error.errno, error.strerror) from error
        self._checkpoint_size = self._index.segment.size

    def close(self) -> None:
        """Close the last segment."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def _is_full(self, block: Block) -> bool:
        """Whether a block belongs into the next segment."""
        assert self._index is not None
        segment = self._index.segment
        return segment.end > segment.base and segment.size + block.bytes > self._options.segment_bytes

    def _begin_segment(self, block: Block) -> None:
        """Create the segment that a block is the first of; it is used only once it is durable."""
        # Only the last segment may have a torn tail, and only it may lack an index that speaks of all of it.
        self.checkpoint()
        base, salt = block.first, secrets.randbits(32)
        name = segment_name(base)
        fd = self._disk.open_append(name)
        try:
            write_all(self._disk, fd, pack_header(base, salt, self._share))
        except OSError as error:
            self._disk.close(fd)
            if error.errno not in NO_ROOM:
                raise
            self._disk.unlink(name)
            raise NoRoom(error.errno, error.strerror) from error
        self.close()
        producers = Producers() if self._index is None else self._index.producers
        segment = Segment(base, salt, base)
        self._fd, self._index, self._checkpoint_size = fd, Index(segment, producers=producers), 0
        self._disk.sync(fd)
        self._disk.sync_dir()
        self._segments.append(segment)
        with suppress(NoRoom):
            self.checkpoint()

    @property
    def index(self) -> Index | None:
        """What is known of the last segment."""
        return self._index

    def remove(self, segment: Segment) -> None:
        """Remove the oldest segment, which is not the last one, so that it goes before its successor may."""
        if self._checkpoint_size == 0:
            # Until the last segment has an index, its producers are those of the one before.
            self.checkpoint()
        self._disk.unlink(segment.name)
        self._disk.sync_dir()
        self._segments.remove(segment)
        try:
            self._disk.unlink(index_name(segment.base))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
