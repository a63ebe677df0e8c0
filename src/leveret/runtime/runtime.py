"""The one lock around the core, and what happens when it is taken and let go.

    with runtime:                   the core learns the time; what is due happens
        ...verbs of the core...
        batch = runtime.commit()    what was appended is to go to the disk
    runtime.wait(batch)             until it is there; never under the lock

Its parts: the CommitScheduler has the commit batches and what waits for them, the QueueDispatcher lets time pass and
hands out what is ready, Waiters are the threads and tasks that wait for messages, the Housekeeper has the store.
"""

import secrets
from collections.abc import Callable

from leveret.clock import Clock, give_turn
from leveret.config import Options
from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.observability.tracing import BrokerTracer
from leveret.runtime.commit_scheduler import CommitScheduler
from leveret.runtime.dispatcher import QueueDispatcher
from leveret.runtime.housekeeper import Housekeeper
from leveret.runtime.large_bodies import LargeBodies
from leveret.runtime.receipts import Receipts
from leveret.runtime.threads import Lock
from leveret.runtime.waiters import Waiters
from leveret.storage.journal.store import Store
from leveret.storage.stream.store import StreamStore

TURNS_GIVEN = 20
SECRET_BYTES = 32


class Runtime:
    """The core of a broker, made safe for threads."""

    def __init__(
        self, core: Broker, lock: Lock, clock: Clock, options: Options | None = None, secret: bytes | None = None
    ) -> None:
        """Serve a core in memory; `attach` gives it a store. The secret is that of receipts, chosen here by default."""
        self.core = core
        self.clock = clock
        self.lock = lock
        self.options = options or Options()
        self.receipts = Receipts(secret or secrets.token_bytes(SECRET_BYTES))
        self.blob_bytes = self.options.message_bytes_max
        """Larger bodies are kept outside of the log."""
        self.closed = False
        self.waiters = Waiters()
        self.store: Store | None = None
        self.large: LargeBodies | None = None
        self.tracer: BrokerTracer | None = None
        self.first_batch = 0
        self.commits = CommitScheduler(lock, clock)
        self.housekeeper = Housekeeper(self)
        self._dispatcher = QueueDispatcher(self)
        self._hears_durable: Callable[[int], None] | None = None

    @property
    def streams(self) -> StreamStore:
        """The streams of the broker."""
        assert self.commits.streams is not None, "a broker is opened with streams"
        return self.commits.streams

    def keep_streams(self, streams: StreamStore) -> None:
        """Commit streams together with the journal, and look after them."""
        self.commits.keep_streams(streams)
        if len(streams):
            with self.lock:
                self.housekeeper.plan()

    def attach(self, store: Store, large: LargeBodies | None) -> None:
        """Commit to a store from now on, and put large bodies away if there is a place for them."""
        self.store = store
        self.large = large
        if large is not None:
            self.blob_bytes = self.options.blob_bytes
        self.first_batch = store.journal.pending
        store.commit.on_durable = self._durable
        self.commits.attach(store)
        with self.lock:
            self.housekeeper.attach(store)

    def __enter__(self) -> Broker:
        if not self.lock.acquire(blocking=False):
            self._acquire()
        try:
            if self.closed:
                raise BrokerClosed("the broker was closed: open it again")
            self.commits.check()
            self.commits.awaited = False
            self._dispatcher.tick()
        except BaseException:
            self.lock.release()
            raise
        return self.core

    def _acquire(self) -> None:
        """Take the lock from a thread that was interrupted while it held it.

        A thread that sleeps at a lock gets it as soon as it is free, before it may run: from then on every verb of
        every thread would change threads. So let the others run first, and sleep only if that does not help.
        """
        for _ in range(TURNS_GIVEN):
            give_turn()
            if self.lock.acquire(blocking=False):
                return
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        """Wake the waiters that have something to do now, and let the lock go; then raise what went wrong beside the
        verb.
        """
        core, streams = self.core, self.commits.streams
        problem: Exception | None = None
        try:
            if streams is not None and streams.dirty:
                self.housekeeper.plan()
                self.commits.commit_streams(core.now_ms)
            if core.engine.dirty:
                self._dispatcher.dispatch()
            self._dispatcher.plan()
            if self._dispatcher.problem is not None and not any(error):
                problem, self._dispatcher.problem = self._dispatcher.problem, None
        finally:
            self.lock.release()
        if problem is not None:
            raise problem

    def dispatch(self) -> None:
        """Push to consumers and wake waiters now. The caller holds the lock."""
        self._dispatcher.dispatch()

    # Durability

    def commit(self) -> int:
        """Give the commit batch to wait for, with all that was appended. The caller holds the lock."""
        if self.store is not None:
            self.housekeeper.written(self.store.journal.segment)
        return self.commits.commit()

    def kick(self) -> None:
        """Send what was appended to the disk without waiting for it. The caller holds the lock."""
        self.commits.kick()

    @property
    def behind(self) -> bool:
        """Whether the disk is so far behind that publishers must wait."""
        return self.commits.behind

    @property
    def durable_batch(self) -> int:
        """The last commit batch that is on the disk; 0 for a broker in memory."""
        return self.commits.durable_batch

    def wait(self, commit_batch: int) -> None:
        """Return when a commit batch is durable."""
        self.commits.wait(commit_batch)

    async def wait_async(self, commit_batch: int) -> None:
        """Return when a commit batch is durable, while other tasks run."""
        await self.commits.wait_async(commit_batch)

    def on_durable(self, callback: Callable[[int], None]) -> None:
        """Call back with the number of each commit batch that has become durable, from whatever thread wrote it.

        The callback sees to it that the lock is taken soon, which wakes the readers of streams.
        """
        self._hears_durable = callback

    def _durable(self, commit_batch: int) -> None:
        """A commit batch is durable: readers of streams can go on. From whatever thread wrote it."""
        if self.tracer is not None:
            self.tracer.durable(commit_batch)
        if self._hears_durable is not None:
            self._hears_durable(commit_batch)
        elif self.core.engine.dirty:
            with self.lock:
                self._dispatcher.dispatch()
                self._dispatcher.plan()

    def flush(self) -> None:
        """Return when everything that was done until now is durable."""
        with self:
            store = self.store
        if store is not None:
            store.commit.force()

    def fail(self, error: JournalFailed) -> None:
        """Every verb raises from now on: wake the waiters, so that theirs does too. Not under the lock."""
        with self.lock:
            self.waiters.wake_all()

    def close(self) -> None:
        """Refuse every verb from now on, wake the waiters, and let go of the files."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            self.waiters.wake_all()
        if self.store is not None:
            self.store.hurry()
        self._dispatcher.stop()
        self.housekeeper.stop()
        streams = self.commits.streams
        try:
            if streams is not None:
                healthy = self.store is None or self.store.commit.failed is None
                streams.close(self.clock.now_ms()) if healthy else streams.abandon()
        finally:
            for part in (self.large, self.store, self.tracer):
                if part is not None:
                    part.close()
