"""A data directory, open: the lock on it, the journal, its commits, checkpoints and compaction.

    journal = FileJournal(options, clock)
    state = ...the broker, which appends to the journal...
    store = Store(Disk("data"), journal, state, threading.Lock(), clock, options)

Whoever uses the state holds the lock meanwhile. `housekeep` is to be called now and then; it does a bounded piece of
work and waits for the disk, but never while it holds the lock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leveret.core.errors import DamagedJournal, JournalFailed
from leveret.core.histogram import Histogram
from leveret.core.ports import State
from leveret.journal.checkpoint import Checkpoint, Position, remove_leftovers, write_checkpoint
from leveret.journal.commit import Commit, Lock, ThreadedCommit, stop_process
from leveret.journal.compaction import Names, archive_segment, is_worth_copying, remove_segment
from leveret.journal.disk import NO_ROOM, Disk
from leveret.journal.files import FileJournal
from leveret.journal.meta import META_NAME, Meta, new_meta, read_meta, write_meta
from leveret.journal.options import JournalOptions
from leveret.journal.recovery import Recovered, Recovery, play_segment
from leveret.journal.replay import Mentions
from leveret.journal.segments import SegmentReader, segment_name, segment_numbers
from leveret.journal.writer import Writer

COPIED_BYTES = 4 << 20
"""What one step of compaction copies while it holds the lock."""
DRAINING_SHARE_MAX = 0.9
"""A segment that lost more than a tenth of what lived in it between two looks is given time."""


class Store:
    """One open data directory."""

    def __init__(
        self,
        disk: Disk,
        journal: FileJournal,
        state: State,
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
        """Lock the directory, recover the state, and begin to commit."""
        self.disk = disk
        self.journal = journal
        self.state = state
        self.lock = lock
        self.options = options
        self.archive_problem: OSError | None = None
        self._names = names
        self._reader = SegmentReader(disk, options.keys)
        self._writer = Writer(disk, journal, options, clock)
        disk.lock()
        try:
            self.meta = self._meta(clock())
            self.recovered = self._recover(clock, salvage)
        except OSError as error:
            self._release()
            raise JournalFailed(f"the data directory cannot be opened: {error}; repair it and start again") from error
        except BaseException:
            self._release()
            raise
        kind = ThreadedCommit if threaded else Commit
        self.commit = kind(journal, self._writer, lock, on_failure, on_durable)
        if isinstance(self.commit, ThreadedCommit):
            self.commit.start()
        self._checkpoint_at_bytes = options.checkpoint_bytes
        self._oldest = 0, 0  # the oldest segment and what lived in it at the last look
        if self.recovered.skipped_bytes or self.recovered.skipped_frames:
            self.checkpoint()

    @property
    def syncs(self) -> int:
        """How often the log was synced since it was opened: shared by whoever waited meanwhile."""
        return self._writer.syncs

    @property
    def sync_us(self) -> Histogram:
        """How long those syncs took, in microseconds."""
        return self._writer.sync_us

    @property
    def frame_entries(self) -> Histogram:
        """How much went into one commit: entries of publishes, deliveries, settlements and definitions."""
        return self._writer.frame_entries

    @property
    def bytes_written(self) -> int:
        """Bodies and entries that were written since it was opened."""
        return self._writer.bytes_written

    def housekeep(self) -> bool:
        """Checkpoint when it is time, compact a little, look at the free space; True when there is more to do."""
        if self._writer.bytes_written >= self._checkpoint_at_bytes:
            self.checkpoint()
        more = not self._drains() and self.compact()
        if self.journal.full:
            with self._loudly():
                self._writer.check_space()
        return more

    def _drains(self) -> bool:
        """Whether the oldest segment empties quickly by itself: what leaves anyway need not be copied."""
        segment, before = self._oldest
        with self.lock:
            live = self.journal.counts()[0].get(self.meta.oldest, 0)
            room = not self.journal.full
        self._oldest = self.meta.oldest, live
        return room and segment == self.meta.oldest and 0 < live < DRAINING_SHARE_MAX * before

    def compact(self, budget_bytes: int = COPIED_BYTES) -> bool:
        """Do a step towards removing the oldest segment; True when there is more to do now."""
        segment = self.meta.oldest
        with self._loudly():
            with self.lock:
                if segment >= self.journal.segment or not self._is_worth_copying(segment):
                    return False
                if not self.state.relocate(segment, budget_bytes):
                    self.commit.kick()
                    return True
                seq = self.commit.barrier()
            self.commit.wait(seq)
            return self._archive(segment) and self._remove(segment)

    def checkpoint(self) -> bool:
        """Write the whole state; False when there was no room for it."""
        with self.lock:
            seq = self.commit.barrier()
            position = Position(self.journal.segment, self.journal.offset, seq)
            placed = dict(self.journal.counts()[1])
            snapshot = self.state.snapshot()
        self._checkpoint_at_bytes = self._writer.bytes_written + self.options.checkpoint_bytes
        self.commit.wait(seq)
        with self._loudly():
            try:
                write_checkpoint(self.disk, Checkpoint(position, placed, snapshot), self.options.keys)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                remove_leftovers(self.disk)
                return False
        return True

    def close(self) -> None:
        """Commit the rest, take a checkpoint, and let go of the directory."""
        try:
            if self.commit.failed is None:
                self.commit.flush()
                self.checkpoint()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the directory as a killed process does: without a commit and without a checkpoint."""
        self.commit.stop()
        self._release()

    def _is_worth_copying(self, segment: int) -> bool:
        """Whether the oldest segment should go."""
        sizes = {n: self.disk.size(segment_name(n)) for n in segment_numbers(self.disk) if n < self.journal.segment}
        return is_worth_copying(segment, *self.journal.counts(), sizes)

    def _archive(self, segment: int) -> bool:
        """Hand a segment over before it goes; an archive that fails keeps it, and says why."""
        if self.options.archive_dir is None:
            return True
        mentions = Mentions()
        play_segment(self.disk, segment, self.options.keys, mentions)
        with self.lock:
            names = self._names(mentions.queues)
        try:
            archive_segment(self.disk, segment, self.options.archive_dir, names)
        except OSError as error:
            self.archive_problem = error
            return False
        self.archive_problem = None
        return True

    def _remove(self, segment: int) -> bool:
        """Remove a segment in which nothing lives."""
        try:
            self.meta = remove_segment(self.disk, segment, self.meta)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            # META has room again once the spare file is gone; the next step removes the segment.
            remove_leftovers(self.disk)
            return self._writer.give_up_spare()
        with self.lock:
            self.journal.forget(segment)
            self._reader.forget(segment)
        return True

    @contextmanager
    def _loudly(self) -> Iterator[None]:
        """An error of the disk, whatever was being done, ends the journal."""
        try:
            yield
        except OSError as error:
            raise self.commit.fail(error) from error

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

    def _recover(self, clock: Callable[[], int], salvage: bool) -> Recovered:
        """Bring the state up to what is on the disk; prepare the end of the log."""
        began_ms = clock()
        found = Recovery(self.disk, self.state, self.options.keys, self.meta.oldest, salvage).run()
        segment, offset, seq = found.position
        live = self.state.recovered(began_ms)
        self.journal.begin(seq + 1, segment, offset, self._reader, live, found.placed)
        last = found.last
        self._writer.resume(segment if last else 0, last.salt if last else 0, seq)
        if not self._writer.keep_spare():
            self.journal.refuse_publishes(True)
        found.seconds = max(0, clock() - began_ms) / 1000
        return found

    def _release(self) -> None:
        """Close files and let others in."""
        self._writer.close()
        self._reader.close()
        self.disk.unlock()
