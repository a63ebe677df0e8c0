"""A data directory, open: the lock on it, the journal, its commits, checkpoints and compaction.

    journal = FileJournal(options, clock)
    state = ...the broker, which appends to the journal...
    store = Store(Disk("data"), journal, state, threading.Lock(), clock, options)

Whoever uses the state holds the lock meanwhile. `housekeep` is to be called now and then; it does a bounded piece of
work and waits for the disk, but never while it holds the lock.
"""

from collections.abc import Callable

from leveret.core.errors import DamagedJournal, JournalFailed
from leveret.core.ports import State
from leveret.journal.checkpoint import Checkpoint, Position, remove_leftovers, write_checkpoint
from leveret.journal.commit import Commit, Lock, ThreadedCommit, stop_process
from leveret.journal.disk import NO_ROOM, Disk
from leveret.journal.files import FileJournal
from leveret.journal.meta import META_NAME, Meta, new_meta, read_meta, write_meta
from leveret.journal.options import JournalOptions
from leveret.journal.recovery import Recovered, Recovery
from leveret.journal.segments import SegmentReader, segment_numbers
from leveret.journal.writer import Writer


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
    ) -> None:
        """Lock the directory, recover the state, and begin to commit."""
        self.disk = disk
        self.journal = journal
        self.state = state
        self.lock = lock
        self.options = options
        self._reader = SegmentReader(disk, options.keys)
        self._writer = Writer(disk, journal, options, clock)
        disk.lock()
        try:
            self.meta = self._meta(clock())
            self.recovered = self._recover(clock(), salvage)
        except BaseException:
            self._release()
            raise
        kind = ThreadedCommit if threaded else Commit
        self.commit = kind(journal, self._writer, lock, on_failure, on_durable)
        if isinstance(self.commit, ThreadedCommit):
            self.commit.start()
        self._checkpoint_at_bytes = options.checkpoint_bytes
        if self.recovered.skipped_bytes or self.recovered.skipped_frames:
            self.checkpoint()

    def housekeep(self) -> None:
        """Take a checkpoint when it is time; look at the free space."""
        if self._writer.bytes_written >= self._checkpoint_at_bytes:
            self.checkpoint()
        if self.journal.full:
            self._writer.check_space()

    def checkpoint(self) -> bool:
        """Write the whole state; False when there was no room for it."""
        with self.lock:
            seq = self.commit.barrier()
            position = Position(self.journal.segment, self.journal.offset, seq)
            placed = dict(self.journal.counts()[1])
            snapshot = self.state.snapshot()
        self._checkpoint_at_bytes = self._writer.bytes_written + self.options.checkpoint_bytes
        self.commit.wait(seq)
        try:
            write_checkpoint(self.disk, Checkpoint(position, placed, snapshot), self.options.keys)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise self.commit.fail(error) from error
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

    def _recover(self, now_ms: int, salvage: bool) -> Recovered:
        """Bring the state up to what is on the disk; prepare the end of the log."""
        found = Recovery(self.disk, self.state, self.options.keys, self.meta.oldest, salvage).run()
        segment, offset, seq = found.position
        live = self.state.recovered(now_ms)
        self.journal.begin(seq + 1, segment, offset, self._reader, live, found.placed)
        last = found.last
        self._writer.resume(segment if last else 0, last.salt if last else 0, seq)
        if not self._writer.keep_spare():
            self.journal.full = True
        return found

    def _release(self) -> None:
        """Close files and let others in."""
        self._writer.close()
        self._reader.close()
        self.disk.unlock()
