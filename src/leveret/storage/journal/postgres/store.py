"""A shard of a store in PostgreSQL, open: taken over, recovered, and written to for as long as no other owner takes it.

    journal = FileJournal(options, clock)
    state = ...the broker, which appends to the journal...
    store = TableStore(table, journal, state, threading.Lock(), clock, options)

The journal is the one that files have: it fills commit batches and knows the place of every record. A segment has the
same bytes in a table as in a file, a row for its header and one for each commit batch, so that checkpoints,
compaction, archives and everything that reads them are the same as well.
"""

import os
import secrets
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from leveret.clock import US_PER_S, ticks_us
from leveret.core.errors import Fenced, InvalidArgument, JournalError, JournalFailed, StoreUnreachable
from leveret.core.ports import JournaledState
from leveret.storage.encryption import KeyRef
from leveret.storage.journal.checkpoint import Checkpoint, packed_checkpoint
from leveret.storage.journal.commit import CommitBatchWriter, Lock, stop_process
from leveret.storage.journal.files.meta import Meta, new_meta, packed_meta, parse_meta
from leveret.storage.journal.files.recovery import RecoveredJournal, queues_in
from leveret.storage.journal.files.segments import SegmentHeader, when_ms
from leveret.storage.journal.history import History
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.postgres.reader import Questions, TableReader, TableRecovery, asked
from leveret.storage.journal.postgres.table import FIRST_START, Beside, SegmentRow, ShardRow, ShardTable, Unknown
from leveret.storage.journal.records import CommitBatch
from leveret.storage.journal.store import COPIED_BYTES, Archiver, Names, Store, archive_bytes
from leveret.storage.options import JournalOptions

ROW_BYTES_MAX = 256 << 20
"""Of a commit batch: PostgreSQL holds no value of a GiB, and copies one several times on its way."""
OPEN_PATIENCE_S = 5.0
CLOSE_PATIENCE_S = 10.0
"""How long a store that is opened or closed waits for a database that does not answer."""


def owner_name() -> str:
    """Who opens a store: the machine and the process, and what tells this opening from any other."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class Takeover:
    """Who takes over a shard, and at which epoch; None: at the next one."""

    owner: str
    epoch: int | None = None


class TableStore(Store):
    """One shard that this process owns."""

    watched = True

    def __init__(
        self,
        table: ShardTable,
        journal: FileJournal,
        state: JournaledState,
        lock: Lock,
        clock: Callable[[], int],
        options: JournalOptions,
        *,
        claim: Takeover | None = None,
        threaded: bool = True,
        on_failure: Callable[[JournalFailed], None] = stop_process,
        names: Names = lambda numbers: {},
        pause: Callable[[float], object] | None = None,
    ) -> None:
        if options.sync != "always":
            raise InvalidArgument(f"a store in PostgreSQL is always synced, not {options.sync}: leave sync as it is")
        super().__init__(journal, state, lock, clock, options, names)
        self._table = table
        self.questions = Questions()
        self._reader = TableReader(table, options.keys, self.questions)
        self._writer = TableWriter(table, journal, options, self.history, pause)
        self._sizes: dict[int, int] = {}
        self._impatience: threading.Timer | None = None
        journal.frame_bytes_max = ROW_BYTES_MAX
        try:
            shard = self._take(claim or Takeover(owner_name()), packed_meta(new_meta(clock())), pause)
            self.epoch = shard.epoch
            self.meta = replace(parse_meta(shard.meta), oldest=shard.oldest)
            self._check_keys()
            self.recovered = self._recovered(shard, clock)
            self._note_keys()
        except BaseException:
            self._release()
            raise
        self.start(self._writer, threaded, on_failure)

    @property
    def trouble(self) -> str | None:
        """Why the last commit batch is not written yet, while attempts go on."""
        return self._writer.trouble

    def _segment_key(self, segment: int) -> KeyRef:
        return self._reader.header(segment).key

    def save_meta(self, meta: Meta) -> None:
        if not asked(self._table.set_meta, packed_meta(meta)):
            raise self._writer.fenced()
        self.meta = meta

    def opened(self) -> None:
        self.questions.hurry()

    def store_beside(self, beside: Beside) -> None:
        """Store the changes of another part in the transactions of commit batches from now on."""
        self._writer.beside = beside

    def housekeep(self) -> bool:
        """See that no other owner has taken over; checkpoint when it is time, compact a little."""
        self._check_owner()
        return super().housekeep()

    def confirm_owner(self) -> None:
        if asked(self._table.barrier) is None:
            raise self.commit.fail(self._writer.fenced())

    def _check_owner(self) -> None:
        """Stop when there is a newer owner: one that has nothing to write would not hear of it."""
        try:
            shard = self._table.shard()
        except Unknown as unknown:
            self.questions.away = str(unknown)
            return
        except JournalFailed as error:
            raise self.commit.fail(error) from error
        self.questions.away = None
        if shard.epoch != self.epoch:
            raise self.commit.fail(fenced(shard))

    def is_owner(self) -> bool:
        """Whether no other owner has taken over; raises StoreUnreachable when the database does not say."""
        try:
            return self._table.shard().epoch == self.epoch
        except Unknown as error:
            raise StoreUnreachable(f"PostgreSQL does not say who owns the shard: {error}") from None

    def compact(self, budget_bytes: int = COPIED_BYTES, forced: bool = False) -> bool:
        """See Store; how large segments are is asked first, while no thread waits for the lock."""
        # Of an unknown size an estimate is made, and the next look may know better.
        with self._loudly(), suppress(Unknown):
            for number in range(self.meta.oldest, self._writer.segment):
                if number not in self._sizes:
                    self._sizes[number] = self._table.end(number)
        return super().compact(budget_bytes, forced)

    def sizes(self) -> dict[int, int]:
        """The bytes of each segment of the log, as far as they are known."""
        oldest = self.meta.oldest
        known = {number: size for number, size in self._sizes.items() if number >= oldest}
        return {**known, self.journal.segment: self.journal.offset}

    def hurry(self) -> None:
        """See Store: a database that does not answer is not waited for for long."""
        if self._impatience is None:
            self._impatience = threading.Timer(CLOSE_PATIENCE_S, self._writer.give_up)
            self._impatience.daemon = True
            self._impatience.start()

    def close(self) -> None:
        """Commit the rest, take a checkpoint and let go, in a hurry."""
        self.hurry()
        super().close()

    def abandon(self) -> None:
        """Let go as a killed process does; what is under way may become durable, or not."""
        self._writer.give_up()
        super().abandon()

    def _take(self, claim: Takeover, meta: str, pause: Callable[[float], object] | None) -> ShardRow:
        """Take over the shard; try again while the database does not answer, but not for long.

        Attempts take their time, too: other nodes, which may reach it, try only when this one gives up.
        """
        began_us, paused_s, wait_s = ticks_us(), 0.0, RETRY_S
        while True:
            try:
                shard = self._table.takeover(claim.epoch, claim.owner, meta)
            except Unknown as unknown:
                if max(paused_s, (ticks_us() - began_us) / US_PER_S) >= OPEN_PATIENCE_S:
                    raise StoreUnreachable(f"the store in PostgreSQL cannot be opened: {unknown}") from unknown
                (pause or threading.Event().wait)(wait_s)
                paused_s, wait_s = paused_s + wait_s, min(2 * wait_s, RETRY_S_MAX)
            else:
                if shard is None:
                    raise self._writer.fenced()
                return shard

    def _recovered(self, shard: ShardRow, clock: Callable[[], int]) -> RecoveredJournal:
        """Recover; what looks like damage may be what a newer owner has done meanwhile."""
        recovery = TableRecovery(self._table, self._reader, self.state, self.options.keys, shard)
        try:
            return self._take_up(recovery.run, self._reader, self._writer, clock)
        except JournalError:
            now = asked(self._table.shard)
            if now.epoch != shard.epoch:
                raise fenced(now) from None
            raise

    def _write_checkpoint(self, checkpoint: Checkpoint) -> bool:
        try:
            counts = self._table.save(checkpoint.position.seq, packed_checkpoint(checkpoint, self.options.keys))
        except Unknown:
            return False
        if not counts:
            raise self.commit.fail(self._writer.fenced())
        return True

    def _archivable(self, segment: int) -> tuple[set[int], Archiver]:
        data = self._reader.whole(segment)
        return queues_in(data, segment, self.options.keys), partial(archive_bytes, data, segment)

    def _remove(self, segment: int) -> bool:
        try:
            removed = self._table.remove(segment)
        except Unknown:
            return False
        if not removed:
            raise self.commit.fail(self._writer.fenced())
        self.meta = replace(self.meta, oldest=segment + 1)
        with self.lock:
            self.journal.forget(segment)
            self._reader.forget(segment)
        return True

    def kept(self) -> dict[int, int]:
        found = {}
        for number in asked(self._table.kept):
            with suppress(JournalFailed):  # dropped meanwhile
                found[number] = self._sizes.get(number) or asked(self._table.end, number)
        self._sizes = {number: size for number, size in self._sizes.items() if number >= self.meta.oldest} | found
        return found

    def begun_ms(self, segment: int) -> int | None:
        try:
            return when_ms(asked(self._table.first_header, segment))
        except JournalFailed:
            return None

    def drop(self, segment: int) -> bool:
        return self._table.drop(segment)

    def _release(self) -> None:
        """End the connections; others may have taken over long before."""
        self._table.close()
        self.questions.close()
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience.join()


RETRY_S = 0.02
RETRY_S_MAX = 1.0
"""Between two attempts: a database that comes back is found within a second."""


class TableWriter(CommitBatchWriter):
    """The end of a log in a table: the database side of a commit, one caller at a time.

        append ---- done --------------------------------------------------------> confirmed
           '------- not done, or Unknown
                       '--> barrier --- the log ends with this commit batch ------------> confirmed
                              ^ |------ the log ends just before it -------------> the same commit batch once more
                      Unknown --|------ there is a newer epoch ------------------> Fenced, for good
                                '------ anything else: commit batches were lost ---------> JournalFailed

    A commit batch that was sent over a connection which is gone may still land, even behind the barrier: then the one
    that was sent again is not done, which the next barrier explains. There is never another commit batch under way, so
    none can land behind a gap. Nothing is confirmed while an outcome is unknown, however long that takes: publishers
    wait, or are refused when PostgreSQL has no room.
    """

    may_sync = False  # a row is durable when it is there: nothing is owed to it later, and it does not tear
    syncs_always = True

    def __init__(
        self,
        table: ShardTable,
        journal: FileJournal,
        options: JournalOptions,
        history: History,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """Write what a journal seals; `pause` waits between attempts."""
        super().__init__()
        self._table = table
        self._journal = journal
        self._history = history
        self._keys = options.keys
        self._gave_up = threading.Event()
        self._pause = pause or self._gave_up.wait
        self._beginning: SegmentHeader | None = None
        self._outcome_unknown = False
        self.trouble: str | None = None
        self.beside: Beside | None = None

    def commit(self, batch: CommitBatch) -> None:
        """Write a commit batch, which is durable then."""
        began_us = ticks_us()
        super().commit(batch)
        self.sync_us.observe(ticks_us() - began_us)

    def append(self, batch: CommitBatch) -> None:
        """Write a commit batch, with as many attempts as it takes.

        The writer may be interrupted (a signal handler raises in the main thread); the batch is then written again,
        and its outcome is unknown.
        """
        if batch.seq <= self.written:
            return
        wait_s = RETRY_S
        while not self._attempt(batch):
            if self._gave_up.is_set():
                raise JournalFailed(
                    f"the store did not take frame {batch.seq}: {self.trouble}; what was not confirmed may be lost, "
                    "start again when PostgreSQL answers"
                )
            self._pause(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)
        if self.trouble is not None:
            self.trouble = None
            self._journal.refuse_publishes(False)
        if self.beside is not None:
            self.beside.stored()
        self.end_append(batch)
        self.syncs += 1

    def sync(self) -> None:
        """All that was written is durable."""

    def account(self, written_bytes: int) -> None:
        """There is no disk to look at."""

    def make_room(self, size: int = 1) -> bool:
        try:
            return self._history.give_up(size) > 0
        except JournalError:
            return False  # it answers nothing just now

    def give_up(self) -> None:
        """Make no further attempt at a commit batch that meets trouble; from any thread."""
        self._gave_up.set()
        self._table.cut()

    def _attempt(self, batch: CommitBatch) -> bool:
        """Try once; False when the outcome is not known."""
        try:
            if not self._outcome_unknown or not self._has(batch):
                self._put(batch)
        except Unknown as unknown:
            self.trouble = str(unknown)
            if unknown.no_room and not self.make_room():
                self._journal.refuse_publishes(True)
            return False
        self._outcome_unknown = False
        return True

    def _has(self, batch: CommitBatch) -> bool:
        """Whether the table has a commit batch whose outcome was unknown."""
        found = self._table.barrier()
        if found is None:
            raise self.fenced()
        if self._beginning is not None and found.segment == self._beginning.segment:
            self._began(self._beginning)
        if found.last_seq not in (batch.seq - 1, batch.seq):
            raise JournalFailed(
                f"the store ends with frame {found.last_seq}, and {batch.seq - 1} was confirmed: PostgreSQL has lost "
                "what it had made durable; see that its standbys are synchronous, and start again"
            )
        return found.last_seq == batch.seq

    def _put(self, batch: CommitBatch) -> None:
        """Append a commit batch, to a new segment if it is the first there."""
        self._outcome_unknown = True  # also when this is interrupted
        if batch.segment != self.segment:
            self._begin(batch)
        beside = () if self.beside is None else self.beside.take()
        data = self.sealed(batch, self.written)
        if not self._table.append(SegmentRow(batch.segment, batch.offset, batch.seq, data, beside)):
            raise Unknown("the frame was not appended: it is there already, or another owner has taken over")

    def _begin(self, batch: CommitBatch) -> None:
        """Begin the segment that a commit batch is the first of; a second attempt has the same header."""
        header = self._beginning
        if header is None or header.segment != batch.segment:
            header = SegmentHeader(batch.segment, batch.seq, secrets.randbits(32), self._keys.new_key())
            self._beginning = header
        if not self._table.begin(SegmentRow(header.segment, FIRST_START, header.first_seq - 1, header.pack())):
            raise Unknown("the segment was not begun: it is there already, or another owner has taken over")
        self._began(header)

    def _began(self, header: SegmentHeader) -> None:
        self.begin(header, self._keys)
        self.segment = header.segment
        self._beginning = None

    def fenced(self) -> Fenced:
        """The error of a node that is not the owner any more."""
        try:
            return fenced(self._table.shard())
        except Unknown:
            return fenced(None)


def fenced(shard: ShardRow | None) -> Fenced:
    """The error that says who has taken over."""
    who = "another process" if shard is None else f"{shard.owner} (epoch {shard.epoch})"
    return Fenced(f"{who} has taken over this store: this one stops; run one server on a store")
