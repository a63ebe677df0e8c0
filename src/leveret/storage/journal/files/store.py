"""A data directory, open: the lock on it, and a log in segment files.

journal = FileJournal(options, clock)
state = ...the broker, which appends to the journal...
store = FileStore(Disk("data"), journal, state, threading.Lock(), clock, options)
"""

from collections.abc import Callable
from functools import partial

from leveret.core.errors import DamagedJournal, JournalFailed
from leveret.core.ports import JournaledState
from leveret.storage.disk import Disk, NoRoom, remove_leftovers, undone_without_room
from leveret.storage.encryption import KeyRef
from leveret.storage.journal.checkpoint import Checkpoint, write_checkpoint
from leveret.storage.journal.commit import Lock, stop_process
from leveret.storage.journal.compaction import Names, archive_segment, remove_segment
from leveret.storage.journal.entries import Mentions
from leveret.storage.journal.files.meta import META_NAME, Meta, new_meta, read_meta, write_meta
from leveret.storage.journal.files.recovery import RecoveredJournal, Recovery, play_segment
from leveret.storage.journal.files.segments import (
    SegmentReader,
    read_header,
    segment_name,
    segment_numbers,
)
from leveret.storage.journal.files.writer import SegmentWriter
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.options import JournalOptions
from leveret.storage.journal.store import Archiver, Store


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
        on_durable: Callable[[int], None] | None = None,
        names: Names = lambda numbers: {},
    ) -> None:
        super().__init__(journal, state, lock, options, names)
        self.disk = disk
        self._reader = SegmentReader(disk, options.keys)
        self._writer = SegmentWriter(disk, journal, options, clock)
        disk.lock()
        try:
            self.meta = self._meta(clock())
            self._check_keys()
            self.recovered = self._recover(clock, salvage)
            self._note_keys()
        except OSError as error:
            self._release()
            raise JournalFailed(f"the data directory cannot be opened: {error}; repair it and start again") from error
        except BaseException:
            self._release()
            raise
        self.start(self._writer, threaded, on_failure, on_durable)
        if self.recovered.skipped_bytes or self.recovered.skipped_frames:
            self.checkpoint()

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
        """The bytes of each segment; compaction may remove one meanwhile."""
        found = {}
        for number in segment_numbers(self.disk):
            try:
                found[number] = self.disk.size(segment_name(number))
            except FileNotFoundError:
                continue
        return found

    def _write_checkpoint(self, checkpoint: Checkpoint) -> bool:
        try:
            write_checkpoint(self.disk, checkpoint, self.options.keys)
        except NoRoom:
            return False
        return True

    def _archivable(self, segment: int) -> tuple[Mentions, Archiver]:
        mentions = Mentions()
        play_segment(self.disk, segment, self.options.keys, mentions)
        return mentions, partial(archive_segment, self.disk, segment)

    def _remove(self, segment: int) -> bool:
        try:
            with undone_without_room(lambda: remove_leftovers(self.disk)):
                self.meta = remove_segment(self.disk, segment, self.meta)
        except NoRoom:
            # META has room again once the spare file is gone; the next step removes the segment.
            return self._writer.give_up_spare()
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
        """Close files and let others in."""
        self._writer.close()
        self._reader.close()
        self.disk.unlock()
