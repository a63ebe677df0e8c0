"""A data directory, open: the lock on it, and a log in segment files.

journal = FileJournal(options, clock)
state = ...the broker, which appends to the journal...
store = FileStore(Disk("data"), journal, state, threading.Lock(), clock, options)
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from leveret.clock import ticks_us
from leveret.core.errors import DamagedJournal, JournalFailed
from leveret.core.ports import JournaledState
from leveret.storage.disk import (
    NO_ROOM,
    Disk,
    NoRoom,
    appending,
    create_file,
    discard,
    remove_leftovers,
    replace_file,
    undone_without_room,
    write_all,
)
from leveret.storage.encryption import KeyRef
from leveret.storage.journal.checkpoint import Checkpoint, write_checkpoint
from leveret.storage.journal.commit import CommitBatchWriter, Lock, stop_process
from leveret.storage.journal.files.meta import META_NAME, Meta, new_meta, read_meta, write_meta
from leveret.storage.journal.files.recovery import RecoveredJournal, Recovery, note_salvaged, queues_in
from leveret.storage.journal.files.segments import (
    SegmentHeader,
    SegmentReader,
    begun_ms,
    read_header,
    resealed,
    segment_name,
    segment_numbers,
)
from leveret.storage.journal.history import History
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.records import CommitBatch
from leveret.storage.journal.store import Archiver, Names, Store, archive_segment
from leveret.storage.options import JournalOptions


class FileStore(Store):
    """One open data directory."""

    def __init__(
        self,
        disk: Disk,
        journal: FileJournal,
        state: JournaledState,
        lock: Lock,
        clock: Callable[[], int],
        options: JournalOptions,
        *,
        threaded: bool = True,
        salvage: bool = False,
        on_failure: Callable[[JournalFailed], None] = stop_process,
        names: Names = lambda numbers: {},
    ) -> None:
        super().__init__(journal, state, lock, clock, options, names)
        self.disk = disk
        self._reader = SegmentReader(disk, options.keys)
        self._writer = SegmentWriter(disk, journal, options, clock, self.history)
        disk.lock()
        try:
            self.meta = self._meta(clock())
            self._check_keys()
            self.recovered = self._recover(clock, salvage)
            self._note_keys()
            self.history.trim()
        except OSError as error:
            self._release()
            raise JournalFailed(f"the data directory cannot be opened: {error}; repair it and start again") from error
        except BaseException:
            self._release()
            raise
        self.start(self._writer, threaded, on_failure)
        if self.recovered.skipped:
            self.checkpoint()
            note_salvaged(disk, self.recovered.skipped)

    def housekeep(self) -> bool:
        """Checkpoint when it is time, compact a little, look at the free space; True when there is more to do."""
        more = super().housekeep()
        if self.journal.full:
            with self._loudly():
                self._writer.check_space()
        return more

    def _segment_key(self, segment: int) -> KeyRef:
        header = read_header(self.disk, segment)
        if header is None:
            raise DamagedJournal(f"{segment_name(segment)} has a damaged header: restore it from a backup")
        return header.key

    def save_meta(self, meta: Meta) -> None:
        write_meta(self.disk, meta)
        self.meta = meta

    def opened(self) -> None:
        """A disk answers, or fails for good."""

    def hurry(self) -> None:
        """The same."""

    def confirm_owner(self) -> None:
        """The directory is locked: no other process can have taken it over."""

    def sizes(self) -> dict[int, int]:
        """The bytes of each segment of the log."""
        oldest = self.meta.oldest
        return {number: size for number, size in self._sizes().items() if number >= oldest}

    def kept(self) -> dict[int, int]:
        oldest = self.meta.oldest
        return {number: size for number, size in self._sizes().items() if number < oldest}

    def _sizes(self) -> dict[int, int]:
        """The bytes of all segments; one may be removed meanwhile."""
        found = {}
        for number in segment_numbers(self.disk):
            try:
                found[number] = self.disk.size(segment_name(number))
            except FileNotFoundError:
                continue
        return found

    def begun_ms(self, segment: int) -> int | None:
        return begun_ms(self.disk, segment)

    def reseal(self, segment: int) -> bool:
        name = segment_name(segment)
        replace_file(self.disk, name, resealed(self.disk.read_all(name), segment, self.options.keys))
        return True

    def drop(self, segment: int) -> bool:
        discard(self.disk, segment_name(segment))
        return True

    def _write_checkpoint(self, checkpoint: Checkpoint) -> bool:
        try:
            write_checkpoint(self.disk, checkpoint, self.options.keys)
        except NoRoom:
            return False
        return True

    def _archivable(self, segment: int) -> tuple[set[int], Archiver]:
        data = self.disk.read_all(segment_name(segment))
        return queues_in(data, segment, self.options.keys), partial(archive_segment, self.disk, segment)

    def _remove(self, segment: int) -> bool:
        try:
            with undone_without_room(lambda: remove_leftovers(self.disk)):
                self.save_meta(replace(self.meta, oldest=segment + 1))
        except NoRoom:
            # META has room again once something is gone; the next step removes the segment.
            return self._writer.make_room()
        with self.lock:
            self.journal.forget(segment)
            self._reader.forget(segment)
        return True

    def _meta(self, now_ms: int) -> Meta:
        """Read META, or begin a directory; either way it is on the disk afterwards, not just in a cache."""
        remove_leftovers(self.disk)
        if META_NAME in self.disk.names():
            meta = read_meta(self.disk)
        elif segment_numbers(self.disk):
            raise DamagedJournal(f"{META_NAME} is missing beside segments: restore it from a backup")
        else:
            meta = new_meta(now_ms)
        write_meta(self.disk, meta)
        return meta

    def _recover(self, clock: Callable[[], int], salvage: bool) -> RecoveredJournal:
        """Bring the state up to what is on the disk; prepare the end of the log."""
        recovery = Recovery(self.disk, self.state, self.options.keys, self.meta.oldest, salvage)
        found = self._take_up(recovery.run, self._reader, self._writer, clock)
        if not self._writer.keep_spare():
            self.journal.refuse_publishes(True)
        return found

    def _release(self) -> None:
        self._writer.close()
        self._reader.close()
        self.disk.unlock()


SPARE_NAME = "SPARE"
SPACE_CHECK_BYTES = 16 << 20


class SegmentWriter(CommitBatchWriter):
    """The end of the log, in segment files: the file side of a commit, one caller at a time.

    A write that finds no room is cut back and tried once more after history has been given up, then the SPARE file;
    from then on the journal is `full`, publishes are refused, and acknowledgements use the room that the spare file had
    kept for them.
    Any other failure, and every failed sync, is passed on at once: it is never tried again, because the kernel may have
    marked the lost pages clean, and a second sync would report success.
    """

    def __init__(
        self,
        disk: Disk,
        journal: FileJournal,
        options: JournalOptions,
        clock: Callable[[], int],
        history: History,
    ) -> None:
        self._history = history
        self._disk = disk
        self._journal = journal
        self._options = options
        self._clock = clock
        super().__init__()
        self._fd = -1
        self._unchecked_bytes = 0
        self._space = threading.Lock()
        self._interrupted = False
        self._synced_ms = 0
        self.may_sync = options.sync != "never"
        self.syncs_always = options.sync == "always"
        self.synced = 0

    def resume(self, segment: int, salt: int, last_seq: int) -> None:
        super().resume(segment, salt, last_seq)
        self.synced = last_seq
        if segment:
            self._fd = self._disk.open_append(segment_name(segment))
        self._synced_ms = self._clock()

    def commit(self, batch: CommitBatch) -> None:
        super().commit(batch)
        if self._sync_is_due(batch):
            self.sync()

    def append(self, batch: CommitBatch) -> None:
        """Write a commit batch, giving up history and the spare file if there is no other room.

        The writer may be interrupted (a signal handler raises in the main thread); the batch is then written again,
        and what there is of it is cut off first.
        """
        if batch.seq <= self.written:
            return
        if self._interrupted:
            self._undo(batch)
        self._interrupted = True
        while True:
            try:
                self._write(batch)
                break
            except OSError as error:
                if error.errno not in NO_ROOM or not self.make_room(batch.plain_bytes):
                    raise
        self.end_append(batch)
        self._interrupted = False
        self.account(batch.plain_bytes)

    def account(self, written_bytes: int) -> None:
        """Look at the free space when much was written, here or beside the log."""
        self._unchecked_bytes += written_bytes
        if self._unchecked_bytes >= SPACE_CHECK_BYTES:
            self.check_space()

    def sync(self) -> None:
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
        wanted = self._options.disk_free_min_bytes
        if self._journal.full:
            wanted = max(2 * self._options.spare_bytes, wanted)
        free = self._disk.free_bytes()
        if free < wanted:
            free += self._history.give_up(wanted - free)
        if not self._journal.full and free < wanted:
            self._journal.refuse_publishes(True)
        elif self._journal.full and free >= wanted and self.keep_spare():
            self._journal.refuse_publishes(False)

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
            return self._history.give_up(size) > 0 and self.keep_spare()
        return True

    def make_room(self, size: int = 1) -> bool:
        if self._history.give_up(max(1, size)):
            return True
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
        if batch.awaited_bytes == 0:
            return False  # it says nothing that must not be lost
        if self._options.sync == "interval":
            waited_ms = self._clock() - self._synced_ms
            return not 0 <= waited_ms < self._options.interval_ms
        return self.syncs_always

    def _write(self, batch: CommitBatch) -> None:
        """Append a commit batch to its segment; leave nothing of it when there is no room."""
        if batch.segment != self.segment:
            self._begin_segment(batch)
        try:
            write_all(self._disk, self._fd, self.sealed(batch, self.synced))
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
        self.begin(header, keys)
        self._fd, self.segment = fd, batch.segment
