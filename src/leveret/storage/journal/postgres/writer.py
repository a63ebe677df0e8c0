"""Puts sealed batches into a table: the database side of a commit, one caller at a time.

    append ---- done --------------------------------------------------------> confirmed
       '------- not done, or Unknown
                   '--> barrier --- the log ends with this commit batch ------------> confirmed
                          ^ |------ the log ends just before it -------------> the same commit batch once more
                  Unknown --|------ there is a newer epoch ------------------> Fenced, for good
                            '------ anything else: commit batches were lost ---------> JournalFailed

A commit batch that was sent over a connection which is gone may still land, even behind the barrier: then the one that
was sent again is not done, which the next barrier explains. There is never another commit batch under way, so none can
land behind a gap. Nothing is confirmed while an outcome is unknown, however long that takes: publishers wait, or are
refused when PostgreSQL has no room.
"""

import secrets
import threading
from collections.abc import Callable

from leveret.clock import ticks_us
from leveret.core.errors import Fenced, JournalFailed
from leveret.core.histogram import Histogram
from leveret.storage.journal.files.segments import BatchSealer, SegmentHeader
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.options import JournalOptions
from leveret.storage.journal.postgres.stream_table import Beside
from leveret.storage.journal.postgres.table import FIRST_START, SegmentRow, ShardRow, ShardTable, Unknown
from leveret.storage.journal.records import CommitBatch

RETRY_S = 0.02
RETRY_S_MAX = 1.0
"""Between two attempts: a database that comes back is found within a second."""


class TableWriter:
    """The end of a log in a table."""

    may_sync = False  # a row is durable when it is there: nothing is owed to it later, and it does not tear
    syncs_always = True

    def __init__(
        self,
        table: ShardTable,
        journal: FileJournal,
        options: JournalOptions,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """Write what a journal seals; `pause` waits between attempts."""
        self._table = table
        self._journal = journal
        self._keys = options.keys
        self._gave_up = threading.Event()
        self._pause = pause or self._gave_up.wait
        self._sealer = BatchSealer(0)
        self._beginning: SegmentHeader | None = None
        self._outcome_unknown = False
        self.trouble: str | None = None
        self.beside: Beside | None = None
        self.syncs = self.sync_through = 0
        self.segment = 0
        self.written = 0
        self.bytes_written = 0
        self.sync_us = Histogram()
        self.batch_entries = Histogram()

    def resume(self, segment: int, salt: int, last_seq: int) -> None:
        self.segment, self._sealer, self.written = segment, BatchSealer(salt), last_seq

    def commit(self, batch: CommitBatch) -> None:
        """Write a commit batch, which is durable then."""
        began_us = ticks_us()
        self.append(batch)
        self.sync_us.observe(ticks_us() - began_us)
        if batch.entries:
            self.batch_entries.observe(batch.entries)

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
        self.written = batch.seq
        self._sealer.forget()
        self.syncs += 1
        self.bytes_written += batch.plain_bytes

    def sync(self) -> None:
        """All that was written is durable."""

    def account(self, written_bytes: int) -> None:
        """There is no disk to look at."""

    def give_up_spare(self) -> bool:
        """Nothing is kept for a full disk: PostgreSQL refuses, and goes on when it has room."""
        return False

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
            if unknown.no_room:
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
        data = self._sealer.sealed(batch, self.written)
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
        self._sealer.begin(header, self._keys)
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
