"""A log, open: the journal, its commits, checkpoints and compaction, wherever its segments lie.

FileStore (storage/journal/files/store.py) keeps them in a directory, TableStore (storage/journal/postgres/store.py) in
PostgreSQL. A caller that uses the state holds the lock meanwhile. `housekeep` is to be called now and then; it does a
bounded piece of work and waits for the disk, but never while it holds the lock.

Compaction: the oldest segment goes first, and only once nothing lives in it. An entry that settles a message lies in
the segment of that message or in a newer one. Removing segments in the order of their age therefore never removes the
settling before the settled: in any other order a replay would bring back messages that were acknowledged.

What still lives in the oldest segment is appended again (the state does it, for messages as for definitions and
de-duplication keys), that must be durable, then `oldest` in META is raised, and only then does the segment go: to the
archive directory if there is one, else it is history (history.py). The one that is being written never goes, so there
is always one that carries the commit batch numbers on.
"""

import errno
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from leveret.core.errors import JournalFailed, StoreUnreachable
from leveret.core.ports import JournaledState
from leveret.storage.disk import Disk, replace_file
from leveret.storage.encryption import KeyRef
from leveret.storage.journal.checkpoint import Checkpoint, Position
from leveret.storage.journal.commit import Commit, CommitBatchWriter, Lock, ThreadedCommit
from leveret.storage.journal.files.meta import Meta
from leveret.storage.journal.files.recovery import RecoveredJournal
from leveret.storage.journal.files.segments import segment_name
from leveret.storage.journal.history import History
from leveret.storage.journal.journal import FileJournal
from leveret.storage.options import JournalOptions

Names = Callable[[set[int]], dict[int, str]]
"""Gives the names of queues by their numbers; those that are gone are left out."""
SLACK_BYTES = 1 << 30
"""The log may be this much over twice what lives in it before segments that are mostly alive are copied too."""
LIVE_SHARE_MIN = 0.5


Archiver = Callable[[str, dict[int, str]], object]
"""Writes a segment to a directory, with the names of its queues."""
COPIED_BYTES = 4 << 20
"""What one step of compaction copies while it holds the lock."""
DRAINING_SHARE_MAX = 0.9
"""A segment that lost more than a tenth of what lived in it between two looks is given time."""


class WindowReader(Protocol):
    """Reads a part of a segment, and what lies behind it in the same block."""

    def window(self, segment: int, offset: int, size: int, end: int) -> tuple[int, bytes]: ...


class Store(ABC):
    """One open log; those that open it set `meta` and `recovered`, then call `start`."""

    meta: Meta
    recovered: RecoveredJournal
    commit: Commit
    watched = False
    """Whether it needs attention even when nothing happens."""

    def __init__(
        self,
        journal: FileJournal,
        state: JournaledState,
        lock: Lock,
        clock: Callable[[], int],
        options: JournalOptions,
        names: Names,
    ) -> None:
        self.journal = journal
        self.state = state
        self.lock = lock
        self.options = options
        self.archive_problem: OSError | None = None
        self.names = names
        self.history = History(self, options, clock)
        self._checkpoint_at_bytes = options.checkpoint_bytes
        self.drains = False
        """Whether the oldest segment was left to empty by itself at the last look."""
        self._oldest = 0, 0  # the oldest segment and what lived in it at the last look

    def start(self, writer: CommitBatchWriter, threaded: bool, on_failure: Callable[[JournalFailed], None]) -> None:
        self._batches = writer
        self.sync_us, self.batch_entries = writer.sync_us, writer.batch_entries
        kind = ThreadedCommit if threaded else Commit
        self.commit = kind(self.journal, writer, self.lock, on_failure)
        if isinstance(self.commit, ThreadedCommit):
            self.commit.start()

    def _take_up(
        self,
        recover: Callable[[], RecoveredJournal],
        reader: WindowReader,
        writer: CommitBatchWriter,
        clock: Callable[[], int],
    ) -> RecoveredJournal:
        """Bring the state up to what the log holds, and let the journal and its writer go on behind that."""
        began_ms = clock()
        found = recover()
        segment, offset, seq = found.position
        live = self.state.recovered(began_ms)
        self.journal.begin(seq + 1, segment, offset, reader, live, found.placed)
        writer.resume(segment if found.last else 0, found.last.salt if found.last else 0, seq)
        found.seconds = max(0, clock() - began_ms) / 1000
        return found

    @property
    def oldest(self) -> int:
        """The first segment of the log."""
        return self.meta.oldest

    @property
    def trouble(self) -> str | None:
        """Why nothing becomes durable just now, if that may pass; a disk fails for good."""
        return None

    @property
    def syncs(self) -> int:
        """How often the log was synced since it was opened: shared by the callers that waited meanwhile."""
        return self._batches.syncs

    @property
    def bytes_written(self) -> int:
        """Bodies and entries that were written since it was opened."""
        return self._batches.bytes_written

    def _check_keys(self) -> None:
        """Refuse to open what needs a key that was not given."""
        self.options.keys.require(map(bytes.fromhex, self.meta.keys))

    def _note_keys(self) -> None:
        """Have the key that writes in META before it encrypts something.

        A store that an earlier version has encrypted may need every key that was given.
        """
        keys, known = self.options.keys, self.meta.keys
        if keys and not known and self.recovered.segments:
            known = tuple(key_id.hex() for key_id in keys)
        if keys and keys.writing.hex() not in known:
            known = (keys.writing.hex(), *known)
        if known != self.meta.keys:
            self.save_meta(replace(self.meta, keys=known))

    def housekeep(self) -> bool:
        """Checkpoint when it is time, compact a little; True when there is more to do."""
        if self._batches.bytes_written >= self._checkpoint_at_bytes:
            self.checkpoint()
        with self._loudly(), suppress(StoreUnreachable):
            self.history.look()
        self.drains = self._drains()
        return not self.drains and self.compact()

    def _drains(self) -> bool:
        """Whether the oldest segment empties quickly by itself: what leaves anyway need not be copied."""
        segment, before = self._oldest
        with self.lock:
            live = self.journal.counts()[0].get(self.meta.oldest, 0)
            room = not self.journal.full
        self._oldest = self.meta.oldest, live
        return room and segment == self.meta.oldest and 0 < live < DRAINING_SHARE_MAX * before

    def foreign_segments(self) -> list[int]:
        """The segments that the first key does not encrypt, oldest first; none of them is being written."""
        keys = self.options.keys
        numbers = range(self.meta.oldest, self.journal.segment)
        return [number for number in numbers if not keys.is_current(self._segment_key(number))]

    def foreign_history(self) -> list[int]:
        """The segments of history that the first key does not encrypt, oldest first."""
        keys = self.options.keys
        return [number for number in sorted(self.kept()) if not keys.is_current(self._segment_key(number))]

    def reseal(self, segment: int) -> bool:
        """Encrypt a segment of history by the first key; False where that cannot be done."""
        return False

    def history_keys(self) -> Counter[str]:
        """The segments of history by the ids of their keys."""
        return Counter(key.key_id.hex() for key in map(self._segment_key, self.kept()) if not key.is_plain)

    def compact(self, budget_bytes: int = COPIED_BYTES, forced: bool = False) -> bool:
        """Do a step towards removing the oldest segment; True when there is more to do now.

        If it is forced, however much lives in the segment.
        """
        segment = self.meta.oldest
        with self._loudly():
            with self.lock:
                if segment >= self.journal.segment or not (forced or self._is_worth_copying(segment)):
                    return False
                if not self.state.relocate(segment, budget_bytes):
                    self.commit.kick()
                    return True
                seq = self.commit.barrier()
            self.commit.wait(seq)
            if not self._archive(segment) or not self._remove(segment):
                return False
            if self.options.archive_dir is not None and segment < self.meta.oldest:
                self.drop(segment)
            self.history.trim()
            return True

    def _archive(self, segment: int) -> bool:
        """Hand a segment over before it goes; an archive that fails keeps it, and says why."""
        if self.options.archive_dir is None:
            return True
        queues, archive = self._archivable(segment)
        with self.lock:
            names = self.names(queues)
        try:
            archive(self.options.archive_dir, names)
        except OSError as error:
            self.archive_problem = error
            return False
        self.archive_problem = None
        return True

    def checkpoint(self) -> bool:
        """Write the whole state; False when there was no room for it."""
        with self.lock:
            seq = self.commit.barrier()
            position = Position(self.journal.segment, self.journal.offset, seq)
            placed = dict(self.journal.counts()[1])
            snapshot = self.state.snapshot()
        self._checkpoint_at_bytes = self._batches.bytes_written + self.options.checkpoint_bytes
        self.commit.wait(seq)
        with self._loudly():
            return self._write_checkpoint(Checkpoint(position, placed, snapshot))

    def close(self) -> None:
        """Commit the rest, take a checkpoint, and let go of the log."""
        try:
            if self.commit.failed is None:
                self.commit.flush()
                self.checkpoint()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the log as a killed process does: without a commit and without a checkpoint."""
        self.commit.stop()
        self._release()

    def _is_worth_copying(self, segment: int) -> bool:
        """Whether the oldest segment should go."""
        sizes = {number: size for number, size in self.sizes().items() if number < self.journal.segment}
        return is_worth_copying(segment, *self.journal.counts(), sizes)

    @contextmanager
    def _loudly(self) -> Iterator[None]:
        """An error of the disk or the database, whatever was being done, ends the journal."""
        try:
            yield
        except (OSError, JournalFailed) as error:
            raise self.commit.fail(error) from error

    @abstractmethod
    def _segment_key(self, segment: int) -> KeyRef:
        """The key of a segment."""

    @abstractmethod
    def save_meta(self, meta: Meta) -> None:
        """Store META durably, in the place of the one before."""

    @abstractmethod
    def opened(self) -> None:
        """Everything is recovered: from now on a record is read while others wait for the lock."""

    @abstractmethod
    def hurry(self) -> None:
        """It is about to be closed: let no caller wait for a commit for ever."""

    @abstractmethod
    def confirm_owner(self) -> None:
        """Raise when another owner has taken over."""

    @abstractmethod
    def sizes(self) -> dict[int, int]:
        """The bytes of each segment."""

    @abstractmethod
    def _write_checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Write a checkpoint durably; False when there is no room for it."""

    @abstractmethod
    def _archivable(self, segment: int) -> tuple[set[int], Archiver]:
        """The queues that a segment mentions, and what writes it to an archive."""

    @abstractmethod
    def _remove(self, segment: int) -> bool:
        """Take a segment in which nothing lives out of the log; False when that has to wait."""

    @abstractmethod
    def kept(self) -> dict[int, int]:
        """The bytes of each segment that is not in the log any more."""

    @abstractmethod
    def begun_ms(self, segment: int) -> int | None:
        """When the first commit batch of a segment was written; None when it cannot be read."""

    @abstractmethod
    def drop(self, segment: int) -> bool:
        """Remove a segment that is not in the log any more; False when that has to wait."""

    @abstractmethod
    def _release(self) -> None:
        """Let others in."""


NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})


def is_worth_copying(segment: int, live: dict[int, int], placed: dict[int, int], sizes: dict[int, int]) -> bool:
    """Whether the live records of the oldest segment should be copied so that it can go."""
    if live.get(segment, 0) < LIVE_SHARE_MIN * placed.get(segment, 0) or live.get(segment, 0) == 0:
        return True
    # An estimate: the records of a segment count as equally large.
    alive = sum(size * live.get(each, 0) / max(1, placed.get(each, 0)) for each, size in sizes.items())
    return sum(sizes.values()) > 2 * alive + SLACK_BYTES


def archive_bytes(data: bytes, segment: int, directory: str, names: dict[int, str]) -> None:
    """Hand a segment that is no file to the archive in the same way."""
    replace_file(_archive_names(segment, directory, names), segment_name(segment), data)


def _archive_names(segment: int, directory: str, names: dict[int, str]) -> Disk:
    """Write the names of the queues in a segment into the archive; give the archive."""
    archive = Disk(directory)
    known = {str(number): names[number] for number in sorted(names)}
    replace_file(archive, segment_name(segment).removesuffix(".log") + ".names.json", json.dumps(known).encode())
    return archive


def archive_segment(disk: Disk, segment: int, directory: str, names: dict[int, str]) -> None:
    """Hand a segment to the archive, after the names of its queues; both are durable there when this returns."""
    name = segment_name(segment)
    archive = _archive_names(segment, directory, names)
    if name not in archive.names():
        try:
            disk.link(name, directory)
            archive.sync_dir()
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            replace_file(archive, name, disk.read_all(name))
