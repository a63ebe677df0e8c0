"""Puts sealed batches into segment files: the file side of a commit, one caller at a time.

A write that finds no room is cut back and tried once more after the SPARE file has been given up; from then on the
journal is `full`, publishes are refused, and acknowledgements use the room that the spare file had kept for them.
Any other failure, and every failed sync, is passed on at once: it is never tried again, because the kernel may have
marked the lost pages clean, and a second sync would report success.
"""

import secrets
import threading
from collections.abc import Callable

from leveret.clock import ticks_us
from leveret.core.histogram import Histogram
from leveret.storage.disk import NO_ROOM, Disk, NoRoom, appending, create_file, discard, undone_without_room, write_all
from leveret.storage.journal.files.segments import BatchSealer, SegmentHeader, segment_name
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.options import JournalOptions
from leveret.storage.journal.records import CommitBatch

SPARE_NAME = "SPARE"
SPACE_CHECK_BYTES = 16 << 20


class SegmentWriter:
    """The end of the log."""

    def __init__(self, disk: Disk, journal: FileJournal, options: JournalOptions, clock: Callable[[], int]) -> None:
        self._disk = disk
        self._journal = journal
        self._options = options
        self._clock = clock
        self._fd = -1
        self._sealer = BatchSealer(0)
        self._unchecked_bytes = 0
        self._space = threading.Lock()
        self._interrupted = False
        self._synced_ms = 0
        self.may_sync = options.sync != "never"
        self.syncs_always = options.sync == "always"
        self.syncs = 0
        self.sync_us = Histogram()
        self.batch_entries = Histogram()
        self.sync_through = 0
        self.segment = 0
        self.written = 0
        self.synced = 0
        self.bytes_written = 0

    def resume(self, segment: int, salt: int, last_seq: int) -> None:
        self.segment, self._sealer = segment, BatchSealer(salt)
        self.written = self.synced = last_seq
        if segment:
            self._fd = self._disk.open_append(segment_name(segment))
        self._synced_ms = self._clock()

    def commit(self, batch: CommitBatch) -> None:
        """Write a commit batch and make it as durable as was asked for."""
        self.append(batch)
        if batch.entries:
            self.batch_entries.observe(batch.entries)
        if self._sync_is_due(batch):
            self.sync()

    def append(self, batch: CommitBatch) -> None:
        """Write a commit batch, giving up the spare file if there is no other room.

        The writer may be interrupted (a signal handler raises in the main thread); the batch is then written again,
        and what there is of it is cut off first.
        """
        if batch.seq <= self.written:
            return
        if self._interrupted:
            self._undo(batch)
        self._interrupted = True
        try:
            self._write(batch)
        except OSError as error:
            if error.errno not in NO_ROOM or not self.give_up_spare():
                raise
            self._write(batch)
        self.written = batch.seq
        self._interrupted = False
        self._sealer.forget()
        self.bytes_written += batch.plain_bytes
        self.account(batch.plain_bytes)

    def account(self, written_bytes: int) -> None:
        """Look at the free space when much was written, here or beside the log."""
        self._unchecked_bytes += written_bytes
        if self._unchecked_bytes >= SPACE_CHECK_BYTES:
            self.check_space()

    def sync(self) -> None:
        """Make everything that was written durable."""
        if self.synced < self.written:
            began_us = ticks_us()
            self._disk.datasync(self._fd)
            self.sync_us.observe(ticks_us() - began_us)
            self.syncs += 1
            self.synced = self.written
        self._synced_ms = self._clock()

    def check_space(self) -> None:
        """Compare the free space with the limits; refuse publishes before the disk is full, take them again after."""
        with self._space:
            self._check_space()

    def _check_space(self) -> None:
        """See check_space; both the writer and the housekeeper come here."""
        self._unchecked_bytes = 0
        free = self._disk.free_bytes()
        if self._journal.full:
            enough = max(2 * self._options.spare_bytes, self._options.disk_free_min_bytes)
            if free >= enough and self.keep_spare():
                self._journal.refuse_publishes(False)
        elif free < self._options.disk_free_min_bytes:
            self._journal.refuse_publishes(True)

    def keep_spare(self) -> bool:
        """Have the spare file; False when there is no room for it."""
        size = self._options.spare_bytes
        if size == 0 or (SPARE_NAME in self._disk.names() and self._disk.size(SPARE_NAME) >= size):
            return True
        try:
            with undone_without_room(lambda: self._disk.unlink(SPARE_NAME)), appending(self._disk, SPARE_NAME) as fd:
                self._disk.allocate(fd, size)
                self._disk.sync(fd)
        except NoRoom:
            return False
        return True

    def give_up_spare(self) -> bool:
        """Free the room that was kept for this moment; False when it is gone already."""
        self._journal.refuse_publishes(True)
        if SPARE_NAME not in self._disk.names():
            return False
        self._disk.unlink(SPARE_NAME)
        return True

    def close(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def _sync_is_due(self, batch: CommitBatch) -> bool:
        """Whether the commit batch just written is to be synced now: by the mode, or because a caller needs it."""
        if self.synced < self.sync_through <= self.written:
            return True
        if batch.plain_bytes == 0:
            return False  # it says nothing that could be lost
        if self._options.sync == "interval":
            waited_ms = self._clock() - self._synced_ms
            return not 0 <= waited_ms < self._options.interval_ms
        return self.syncs_always

    def _write(self, batch: CommitBatch) -> None:
        """Append a commit batch to its segment; leave nothing of it when there is no room."""
        if batch.segment != self.segment:
            self._begin_segment(batch)
        try:
            write_all(self._disk, self._fd, self._sealer.sealed(batch, self.synced))
        except OSError as error:
            if error.errno in NO_ROOM:
                self._disk.truncate(self._fd, batch.offset)
            raise

    def _undo(self, batch: CommitBatch) -> None:
        """Remove what an interrupted write left."""
        if batch.segment == self.segment:
            self._disk.truncate(self._fd, batch.offset)
        else:
            discard(self._disk, segment_name(batch.segment))

    def _begin_segment(self, batch: CommitBatch) -> None:
        """Create the segment that a commit batch is the first of; it is used only once it is durable."""
        # Only the last segment may have a torn tail: what lies in this one must be durable before there is a next.
        self.sync()
        self.check_space()
        keys = self._options.keys
        header = SegmentHeader(batch.segment, batch.seq, secrets.randbits(32), keys.new_key())
        fd = create_file(self._disk, segment_name(batch.segment), header.pack())
        self.close()
        self._sealer.begin(header, keys)
        self._fd, self.segment = fd, batch.segment
