"""Group commit: whatever was appended while the last sync ran is the next commit batch. There is no timer.

What no caller waits for does not make a commit batch of its own: it goes with the next one that a caller waits for.

`Commit` does the work in the calling thread; `ThreadedCommit` has a writer thread. Both are used in the same way:

    with lock:
        ...append...
        seq = journal.pending
    commit.wait(seq)            # or commit.notify(seq, callback), after commit.kick() under the lock

Of several who wait at the same time, the first writes for all of them, and the writer thread takes over what came
meanwhile: a single sender is spared two changes of threads.

After a failed write or sync nothing more is written, every waiter gets JournalFailed, and `on_failure` is called once.
"""

import errno
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from leveret.clock import ticks_us
from leveret.core.errors import DiskFull, Fenced, JournalFailed
from leveret.core.histogram import Histogram
from leveret.storage.disk import Bytes
from leveret.storage.encryption import MasterKeys, SegmentCipher, sealed_batch
from leveret.storage.journal.files.segments import ENCRYPTED, SegmentHeader
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.records import CommitBatch

EXIT_FAILED = 70
"""EX_SOFTWARE: a supervisor restarts the process, and recovery tells what is really on the disk."""
EXIT_FENCED = 77
"""EX_NOPERM: a supervisor that restarts it would take the store back from its present owner."""
IDLE_SECONDS = 0.1

Outcome = Callable[[JournalFailed | None], None]
Lock = AbstractContextManager[object]
"""What protects the broker and its journal; a threading.Lock is one, and so is nothing at all in one thread."""


def open_gate(gate: threading.Lock) -> None:
    """Let every waiter at a gate through; an open one stays open."""
    if gate.locked():
        gate.release()


def stop_process(error: JournalFailed) -> None:
    """Say why, and end at once: memory may promise what the disk does not hold."""
    print(f"leveret: {error}", file=sys.stderr, flush=True)
    os._exit(EXIT_FENCED if isinstance(error, Fenced) else EXIT_FAILED)


def stopped(error: OSError) -> JournalFailed:
    """What every caller is told after an error of the disk."""
    return JournalFailed(f"the journal stopped, nothing more is accepted: {error}; free or repair the disk and restart")


class Companion(Protocol):
    """What becomes durable together with the commit batches of a journal: the streams of a broker."""

    dirty: bool
    """Whether something was appended since the last `take`."""

    def take(self) -> None:
        """Choose what the next commit is about. Under the lock."""

    def commit(self, now_ms: int) -> int:
        """Make that durable, and give its bytes; OSError as from a disk, DiskFull when it can be tried again."""

    def committed(self) -> None:
        """It was done. Under the lock."""


class CommitBatchWriter(ABC):
    """Where sealed batches go; one caller at a time."""

    may_sync: bool
    syncs_always: bool

    def __init__(self) -> None:
        self.segment = self._salt = 0
        self._cipher: SegmentCipher | None = None
        self._sealed: tuple[int, bytes] | None = None
        self.written = self.bytes_written = self.syncs = 0
        self.sync_through = 0
        """Commit batches up to this one are to be synced whatever the mode."""
        self.sync_us = Histogram()
        """How long it took to make commit batches durable."""
        self.batch_entries = Histogram()
        """How much was in each of them."""

    def resume(self, segment: int, salt: int, last_seq: int) -> None:
        """Go on behind the last commit batch, not encrypted; segment 0: the next commit batch begins a new one."""
        self.segment, self._salt, self.written = segment, salt, last_seq

    def begin(self, header: SegmentHeader, keys: MasterKeys) -> None:
        """Go on in a new segment."""
        self._salt, self._sealed = header.salt, None
        self._cipher = None if header.key.is_plain else header.cipher(keys)

    def sealed(self, batch: CommitBatch, synced: int) -> Bytes:
        """A commit batch as it lies in the segment: encrypted once, if at all, so that its nonce is used once."""
        if self._sealed is not None and self._sealed[0] == batch.seq:
            return self._sealed[1]
        batch.finish(self._salt, 0 if self._cipher is None else ENCRYPTED, synced)
        if self._cipher is None:
            return batch.checked()
        self._sealed = batch.seq, sealed_batch(self._cipher, self._salt, batch)
        return self._sealed[1]

    def commit(self, batch: CommitBatch) -> None:
        """Write a commit batch and make it as durable as was asked for."""
        self.append(batch)
        if batch.entries:
            self.batch_entries.observe(batch.entries)

    @abstractmethod
    def append(self, batch: CommitBatch) -> None:
        """Write a commit batch."""

    @abstractmethod
    def sync(self) -> None:
        """Make everything that was written durable."""

    @abstractmethod
    def account(self, written_bytes: int) -> None:
        """Count what was written beside the log."""

    def make_room(self, size: int = 1) -> bool:
        """Free so many bytes of history, or what was kept for a full disk; False when there is neither."""
        return False

    def end_append(self, batch: CommitBatch) -> None:
        self.written = batch.seq
        self._sealed = None
        self.bytes_written += batch.plain_bytes


class Commit:
    """Commits in the thread that asks for it."""

    def __init__(
        self,
        journal: FileJournal,
        writer: CommitBatchWriter,
        lock: Lock,
        on_failure: Callable[[JournalFailed], None] = stop_process,
    ) -> None:
        """Commit what a journal seals; `lock` is the one that protects the journal."""
        self._journal = journal
        self._writer = writer
        self._lock = lock
        self.on_failure = on_failure
        self.on_durable: Callable[[int], None] | None = None
        self.companion: Companion | None = None
        self._accompanied = False
        """Whether the companion has chosen what the next commit is about, and that is not durable."""
        self._mutex = threading.Lock()
        self._gates: dict[int, threading.Lock] = {}
        self._callbacks: dict[int, list[Outcome]] = {}
        self._durable = journal.durable
        self.failed: JournalFailed | None = None
        self.commit_us = Histogram()
        """How long the first caller that waited for a commit batch did so."""

    def kick(self) -> None:
        """Commit all that was appended; the caller holds the lock."""
        self._check()
        while self.failed is None:
            began_us = ticks_us()
            batch = self._next_batch()
            if batch is None:
                return
            if self._write(batch):
                self._wrote(batch)
                self.commit_us.observe(ticks_us() - began_us)
                self._wake(batch.seq)

    def wait(self, seq: int) -> None:
        """Return when a commit batch is durable; the caller does not hold the lock."""
        with self._mutex:
            gate = None
            if self._durable < seq and self.failed is None:
                gate = self._gates.get(seq)
                if gate is None:
                    gate = self._gates[seq] = threading.Lock()
                    gate.acquire()
        if gate is not None:
            # Each waiter lets the next one through: the writer thread opens the gate once, for however many.
            gate.acquire()
            gate.release()
        if self._durable < seq:
            self._check()

    def notify(self, seq: int, callback: Outcome) -> None:
        """Call back when a commit batch is durable (with None) or never will be; mostly from the writer thread."""
        with self._mutex:
            pending = self._durable < seq and self.failed is None
            if pending:
                self._callbacks.setdefault(seq, []).append(callback)
        if not pending:
            callback(None if self._durable >= seq else self.failed)

    def flush(self) -> None:
        """Commit all that was appended until now, as durably as the mode says."""
        with self._lock:
            self._check()
            seq = self.pending
            self.kick()
        self.wait(seq)

    def force(self) -> None:
        """Make all that was appended until now durable, whatever the mode."""
        if self._writer.syncs_always:
            return self.flush()
        with self._lock:
            seq = self.barrier()
        return self.wait(seq)

    def barrier(self) -> int:
        """Seal a commit batch, even an empty one, that is synced whatever the mode; the caller holds the lock."""
        self._check()
        batch = self._journal.mark()
        self._writer.sync_through = batch.seq
        self.kick()
        return batch.seq

    def stop(self) -> None:
        """Write nothing more."""

    def sync(self) -> None:
        """Make all that was written durable; for the thread that writes, when it is idle."""
        self._attempt(self._writer.sync)

    def mark(self) -> None:
        """Append an empty commit batch: it proves that those before it were durable. For the thread that writes."""
        with self._lock:
            if not self._journal.idle:
                return
            batch = self._journal.mark()
        if self._attempt(lambda: self._writer.append(batch)):
            with self._lock:
                self._journal.wrote(batch)
            self._wake(batch.seq)

    @property
    def pending(self) -> int:
        """The commit batch that has all that was appended until now; the caller holds the lock."""
        fresh = self._journal.dirty or (self.companion is not None and self.companion.dirty)
        # Nothing was appended, but what the caller saw (a duplicate, say) may still be on its way.
        return self._journal.pending if fresh else self._journal.awaited

    def _next_batch(self) -> CommitBatch | None:
        """The next commit batch, empty if there is only something for the companion; the caller holds the lock."""
        batch = self._journal.next_batch()
        if self.companion is not None and (self._accompanied or self.companion.dirty):
            self._accompanied = True
            self.companion.take()
            return batch or self._journal.mark()
        return batch

    def _wrote(self, batch: CommitBatch) -> None:
        """A commit batch is on the disk; the caller holds the lock."""
        self._journal.wrote(batch)
        if self.companion is not None and self._accompanied:
            self._accompanied = False
            self.companion.committed()

    def _write(self, batch: CommitBatch) -> bool:
        """Write one commit batch, and what goes with it; False when that failed."""
        return self._attempt(lambda: self._commit(batch))

    def _commit(self, batch: CommitBatch) -> None:
        if self.companion is not None and self._accompanied:
            self._writer.account(self._commit_companion(self.companion, batch.when_ms))
        self._writer.commit(batch)

    def _commit_companion(self, companion: Companion, now_ms: int) -> int:
        """Let the companion write, again when there was no room and something was given up for it."""
        while True:
            try:
                return companion.commit(now_ms)
            except DiskFull as full:
                if not self._writer.make_room():
                    raise OSError(errno.ENOSPC, str(full)) from full

    def _attempt(self, action: Callable[[], None]) -> bool:
        """Do something to the disk, once; any error of it ends the journal."""
        try:
            action()
        except (OSError, JournalFailed) as error:
            self.fail(error)
            return False
        return True

    def _check(self) -> None:
        if self.failed is not None:
            raise type(self.failed)(str(self.failed)) from self.failed

    def _wake(self, seq: int) -> None:
        """Let every caller go on that waits for this commit batch or an earlier one."""
        with self._mutex:
            self._durable = seq
            for waited in [waited for waited in self._gates if waited <= seq]:
                # Opened before it is forgotten: if this is interrupted, the next one to come here opens it.
                open_gate(self._gates[waited])
                del self._gates[waited]
            callbacks = [
                call for waited in sorted(self._callbacks) if waited <= seq for call in self._callbacks.pop(waited)
            ]
        for call in callbacks:
            call(None)
        if self.on_durable is not None:
            self.on_durable(seq)

    def fail(self, error: OSError | JournalFailed) -> JournalFailed:
        """Tell every caller that nothing more will become durable."""
        failure = error if isinstance(error, JournalFailed) else stopped(error)
        with self._mutex:
            if self.failed is not None:
                return self.failed
            self.failed = failure
        # First of all: no waiter may go on before the owner knows.
        self.on_failure(failure)
        with self._mutex:
            gates = list(self._gates.values())
            callbacks = [call for calls in self._callbacks.values() for call in calls]
            self._gates.clear()
            self._callbacks.clear()
        for gate in gates:
            gate.release()
        for call in callbacks:
            call(failure)
        return failure


class ThreadedCommit(Commit):
    """Commits in a thread of its own, while the owner appends the next commit batch."""

    def start(self) -> None:
        self._work = threading.Lock()
        self._work.acquire()
        self._busy = self._stopping = False
        self._unmarked = False
        self._wanted = 0  # the last commit batch that a caller asked for
        self._asked_us: dict[int, int] = {}  # when callers asked for those that are not durable yet
        self._seen = 0
        self._thread = threading.Thread(target=self._run, name="leveret-journal", daemon=True)
        self._thread.start()

    def kick(self) -> None:
        self._check()
        self._want(self.pending)
        if not self._busy and self._has_more:
            self._busy = True
            self._work.release()

    def stop(self) -> None:
        """End the thread after the commit batch that it is writing."""
        with self._lock:
            self._stopping = True
            if not self._busy:
                self._busy = True
                self._work.release()
        self._thread.join()

    def wait(self, seq: int) -> None:
        """Return when a commit batch is durable; write it in this thread if no other one is writing."""
        if self._durable < seq and self._lead(seq):
            try:
                while self.failed is None and self._durable < seq and self._commit_next() is not None:
                    continue
            finally:
                self._hand_over()
        super().wait(seq)

    def _lead(self, seq: int) -> bool:
        """Ask for a commit batch; write it in this thread if no other one writes."""
        with self._lock:
            self._want(seq)
            if self._busy or self._stopping or self.failed is not None:
                return False
            self._busy = True
            return True

    def _want(self, seq: int) -> None:
        """A caller asks for a commit batch; the caller holds the lock."""
        if seq > self._wanted:
            self._wanted = seq
            if seq > self._durable:
                self._asked_us[seq] = ticks_us()

    def _wake(self, seq: int) -> None:
        if asked_us := self._asked_us.pop(seq, 0):
            self.commit_us.observe(ticks_us() - asked_us)
        super()._wake(seq)

    def _hand_over(self) -> None:
        """Let the writer thread go on: with what came meanwhile, or with marking the end when nothing comes."""
        with self._lock:
            if self._unmarked and not self._has_more:
                self._busy = False
            else:
                self._unmarked = True
                self._work.release()

    def _run(self) -> None:
        """Write commit batch after commit batch; sleep when there is none."""
        while True:
            if not self._work.acquire(timeout=IDLE_SECONDS if self._unmarked else -1) and not self._rest():
                continue
            while self.failed is None and not self._stopping and (batch := self._commit_next()) is not None:
                self._unmarked |= not batch.is_history
            with self._lock:
                # What was asked for since the last look is found here: no other thread could write it.
                self._busy = self._has_more and self.failed is None and not self._stopping
                if self._busy:
                    self._work.release()
            if self._stopping or self.failed is not None:
                return

    @property
    def _has_more(self) -> bool:
        """Whether a commit batch is sealed, or a caller asked for the open one; the caller holds the lock."""
        opened = self._journal.pending
        return self._journal.durable < opened - 1 or self._wanted >= opened

    def _commit_next(self) -> CommitBatch | None:
        """Commit one commit batch; None when no caller asked for more."""
        with self._lock:
            # Streams that a caller waits for may have gone with an earlier batch: an empty one tells it.
            batch = self._next_batch() or self._journal.mark() if self._has_more else None
        if batch is not None and self._write(batch):
            with self._lock:
                self._wrote(batch)
            self._wake(batch.seq)
        return batch

    def _rest(self) -> bool:
        """Nothing came for a while: sync what an interval still owes, and mark the end. False when another thread
        writes.
        """
        with self._lock:
            if self._busy:
                return False
            if self._seen != self._writer.written:
                self._seen = self._writer.written
                return False
            self._busy = True
            self._unmarked = False
        if self._writer.may_sync:
            self.sync()
            if self.failed is None:
                self.mark()
        with self._lock:
            self._seen = self._writer.written
            durable = self._journal.durable
        self._wake(durable)
        return True
