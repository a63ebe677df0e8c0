"""The one lock around the core, and all that happens when it is taken and let go.

    with runtime:                   the time is told to the core; what is due happens
        ...verbs of the core...
        batch = runtime.commit()    what was appended is to go to the disk
    runtime.wait(batch)             until it is there; never under the lock

What no caller waits for (deliveries, acknowledgements, what time did) goes with the next commit batch, or on its own
after LAZY_COMMIT_MS, or when there is much of it. Time has a thread, and so has housekeeping: that one waits for disks
and blob stores, which must not hold up a message that is due.
"""

import asyncio
import threading
from collections.abc import Callable

from leveret.clock import NEVER_MS, Clock, give_turn
from leveret.core.broker import Broker
from leveret.core.dispatch import pump
from leveret.core.errors import BrokerClosed, JournalError, JournalFailed
from leveret.observability.tracing import BrokerTracer
from leveret.runtime.key_rotation import OtherKeys, Rotation
from leveret.runtime.large_bodies import LargeBodies
from leveret.runtime.ticker import Ticker
from leveret.runtime.waiters import Waiters
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.store import Store
from leveret.storage.stream.store import StreamStore

LAZY_COMMIT_MS = 50
LAZY_COMMIT_BYTES = 1 << 20  # a commit batch that is much larger takes its time, and is not kept for reading
TURNS_GIVEN = 20
HOUSEKEEP_MS = 1_000  # how often, while something is written, checkpoints and compaction get a chance
BUSY_MS = 10  # between two rounds of a compaction: others get the disk and the lock
HOUSEKEEP_STEPS = 8  # segments that one round may remove: a fast publisher must not outrun it
HOUSEKEEP_SEGMENTS = 2  # segments that may be written before the next round, however little time has passed


class Runtime:
    """The core of a broker, made safe for threads."""

    def __init__(self, core: Broker, lock: threading.Lock, clock: Clock) -> None:
        """Serve a core in memory; `attach` gives it a store."""
        self.core = core
        self.clock = clock
        self.lock = lock
        self.closed = False
        self.waiters = Waiters()
        self.store: Store | None = None
        self._journal: FileJournal | None = None
        self.large: LargeBodies | None = None
        self._streams: StreamStore | None = None
        self.tracer: BrokerTracer | None = None
        self._hears_durable: Callable[[int], None] | None = None
        self.first_batch = 0
        self._ticker = Ticker(clock, lock, self._due, "leveret-ticker")
        self._housekeeper = Ticker(clock, lock, self._housekeep, "leveret-housekeeper")
        self._lazy_ms = NEVER_MS
        self._lazy_batch = 0  # the one that is to be written then, unless a caller asks for it earlier
        self._lazy_bytes = LAZY_COMMIT_BYTES
        self._awaited = False  # a caller is going to wait for what was done since the lock was taken
        self._problem: Exception | None = None  # of a queue that could not be read; raised at the next exit
        self._housekeep_segment = 0
        self.rotation: Rotation | None = None

    @property
    def streams(self) -> StreamStore:
        """The streams of the broker."""
        assert self._streams is not None, "a broker is opened with streams"
        return self._streams

    def keep_streams(self, streams: StreamStore) -> None:
        """Commit streams together with the journal, if there is one, and look after them."""
        self._streams = streams
        if self.store is not None:
            self.store.commit.companion = streams
        if len(streams):
            with self.lock:
                self._housekeeper.plan(self.clock.now_ms() + HOUSEKEEP_MS)

    def attach(self, store: Store, large: LargeBodies | None) -> None:
        """Commit to a store from now on, and put large bodies away if there is a place for them."""
        self.store = store
        store.commit.on_durable = self._durable
        self.large = large
        self.first_batch = store.journal.pending
        self._journal = store.journal
        self._lazy_bytes = min(LAZY_COMMIT_BYTES, store.options.unwritten_bytes_max)
        self._housekeep_segment = store.journal.segment + HOUSEKEEP_SEGMENTS
        with self.lock:
            if store.journal.full or store.watched:
                # Nothing is committed as long as all publishes are refused: the ticker has to look for room.
                self._housekeeper.plan(self.clock.now_ms() + HOUSEKEEP_MS)

    def __enter__(self) -> Broker:
        if not self.lock.acquire(blocking=False):
            self._acquire()
        try:
            if self.closed:
                raise BrokerClosed("the broker was closed: open it again")
            failed = None if self.store is None else self.store.commit.failed
            if failed is not None:
                raise type(failed)(str(failed)) from failed
            self._awaited = False
            self._tick()
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
        """Wake the waiters that have something to do now, and let the lock go; then tell what went wrong beside the
        verb.
        """
        core = self.core
        problem: Exception | None = None
        try:
            if self._streams is not None and self._streams.dirty:
                self._commit_streams(self._streams)
            if core.engine.dirty:
                self.dispatch()
            if self._journal is not None and self._journal.unwritten_bytes > self._lazy_bytes:
                self.kick()
            self._ticker.plan(self._plan_lazily())
            deadline_ms = core.next_deadline_ms
            if deadline_ms is not None and deadline_ms < self._ticker.planned_ms:
                self._ticker.plan(deadline_ms)
            if self._problem is not None and not any(error):
                problem, self._problem = self._problem, None
        finally:
            self.lock.release()
        if problem is not None:
            raise problem

    # Durability

    def commit(self) -> int:
        """Give the commit batch to wait for, with all that was appended. The caller holds the lock."""
        self._awaited = True
        if self._journal is None or self.store is None:
            return 0
        if self._housekeeper.planned_ms == NEVER_MS:
            self._housekeeper.plan(self.core.now_ms + HOUSEKEEP_MS)
        if self._journal.segment >= self._housekeep_segment:
            self._housekeep_segment = self._journal.segment + HOUSEKEEP_SEGMENTS
            self._housekeeper.plan(self.core.now_ms)
        return self.store.commit.pending

    def _commit_streams(self, streams: StreamStore) -> None:
        """See to it that what was appended to streams is written soon: readers wait for it.

        The caller that asked for the commit batch begins to write it itself. The caller holds the lock.
        """
        if self._housekeeper.planned_ms == NEVER_MS:
            self._housekeeper.plan(self.core.now_ms + HOUSEKEEP_MS)
        if self.store is None:
            streams.commit_now(self.core.now_ms)
        elif not self._awaited:
            self.store.commit.kick()

    @property
    def _is_uncommitted(self) -> bool:
        """Whether something is to go to the disk. The caller holds the lock."""
        if self._journal is None:
            return False
        return self._journal.dirty or (self._streams is not None and self._streams.dirty)

    def _plan_lazily(self) -> int:
        """When what no caller waits for is to go to the disk; the caller holds the lock."""
        journal = self._journal
        if journal is not None and journal.pending != self._lazy_batch and self._is_uncommitted:
            self._lazy_batch = journal.pending
            self._lazy_ms = self.clock.now_ms() + LAZY_COMMIT_MS
        return self._lazy_ms

    @property
    def _is_lazy_due(self) -> bool:
        """Whether that time has come; a clock that was set back since is no reason to wait for longer."""
        left_ms = self._lazy_ms - self.clock.now_ms()
        return self._lazy_ms < NEVER_MS and not 0 < left_ms <= LAZY_COMMIT_MS

    def _commit_lazily(self) -> None:
        """Send what no caller waits for to the disk; the caller holds the lock."""
        self.commit()
        if self._is_uncommitted:
            self.kick()

    def kick(self) -> None:
        """Send what was appended to the disk without waiting for it. The caller holds the lock."""
        if self.store is not None:
            self.store.commit.kick()

    @property
    def behind(self) -> bool:
        """Whether the disk is so far behind that publishers must wait."""
        if self._journal is None:
            return False
        return self._journal.behind or (self._streams is not None and self._streams.behind)

    @property
    def durable_batch(self) -> int:
        """The last commit batch that is on the disk; 0 for a broker in memory."""
        return 0 if self._journal is None else self._journal.durable

    def on_durable(self, callback: Callable[[int], None]) -> None:
        """Call back with the number of each commit batch that has become durable; from whatever thread wrote it."""
        self._hears_durable = callback

    def _durable(self, commit_batch: int) -> None:
        """A commit batch is durable: readers of streams can go on. From whatever thread wrote it."""
        if self.tracer is not None:
            self.tracer.durable(commit_batch)
        if self._hears_durable is not None:
            self._hears_durable(commit_batch)  # takes the lock in its own thread, and that tells the readers
        elif self.core.engine.dirty:
            with self.lock:
                self.dispatch()
                self._ticker.plan(self._plan_lazily())

    def wait(self, commit_batch: int) -> None:
        """Return when a commit batch is durable."""
        if self.store is not None:
            self.store.commit.wait(commit_batch)

    def notify(self, commit_batch: int, callback: Callable[[JournalFailed | None], None]) -> None:
        """Begin to write a commit batch and call back when it is durable or never will be, from whatever thread
        wrote it.
        """
        if self.store is None:
            callback(None)
            return
        self.store.commit.notify(commit_batch, callback)
        with self.lock:
            self.store.commit.kick()

    async def wait_async(self, commit_batch: int) -> None:
        """Return when a commit batch is durable, while others run."""
        if self.store is None:
            return
        loop = asyncio.get_running_loop()
        durable: asyncio.Future[None] = loop.create_future()

        def finish(error: JournalFailed | None) -> None:
            if not durable.done():
                durable.set_result(None) if error is None else durable.set_exception(error)

        def committed(error: JournalFailed | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish, error)

        self.notify(commit_batch, committed)
        await durable

    def rotate_key(self, other_keys: OtherKeys) -> Rotation:
        """Encrypt everything by the first key from now on; the rotation that is under way, if there is one.

        The caller holds the lock.
        """
        if self.rotation is None or self.rotation.progress.state != "running":
            self.rotation = Rotation(self, other_keys)
            self._housekeeper.plan(self.clock.now_ms())
        return self.rotation

    def flush(self) -> None:
        """Return when everything that was done until now is durable."""
        with self:
            store = self.store
        if store is not None:
            store.commit.force()

    def fail(self, error: JournalFailed) -> None:
        """Every verb raises from now on: wake those who wait, so that theirs does too. Not under the lock."""
        with self.lock:
            self.waiters.wake_all()

    # Time

    def _tick(self) -> bool:
        """Let time pass; True when more is due. Whatever cannot be done then is no reason to refuse a verb."""
        try:
            return self.core.tick(self.clock.now_ms())
        except JournalFailed:
            raise
        except Exception as error:
            self._problem = error
            return True

    def dispatch(self) -> None:
        """Push to consumers and wake waiters; a queue that cannot be read does not hold up the others.

        The caller holds the lock.
        """
        problem: Exception | None = None
        while self.core.engine.dirty and problem is None:
            for queue in self.core.take_dirty():
                try:
                    if queue.consumers:
                        pump(queue)
                except JournalFailed:
                    raise
                except Exception as error:
                    problem = self._problem = error
                self.waiters.wake(queue)

    def _due(self) -> int:
        """Do what is due; give the time of what is next. Runs in the ticker thread."""
        try:
            with self.lock:
                more = self._tick()
                self.dispatch()
                if self._is_lazy_due:
                    self._lazy_ms = NEVER_MS
                    self._commit_lazily()
        except JournalFailed:
            return NEVER_MS  # every verb raises it from now on
        with self.lock:
            deadline_ms = self.core.next_deadline_ms
            next_ms = min(self._plan_lazily(), NEVER_MS if deadline_ms is None else deadline_ms)
            if self.core.engine.dirty:
                next_ms = min(next_ms, self.core.now_ms + HOUSEKEEP_MS)  # what could not be read may be there again
            return self.core.now_ms if more else next_ms

    def _housekeep(self) -> int:
        """Checkpoint, compact and delete a bounded piece; give the time of the next one. Runs in its own thread."""
        try:
            again = self._keep_streams_small()
            if self.store is None:
                return self.clock.now_ms() + HOUSEKEEP_MS if again else NEVER_MS
            more = all(self.store.housekeep() for _ in range(HOUSEKEEP_STEPS))
            wait_ms = BUSY_MS if more else HOUSEKEEP_MS
            again = again or more or self.store.watched or self.store.journal.full or self.store.drains
            again = again or self.store.archive_problem is not None
            if self.large is not None and not self._delete_blobs(self.large):
                again = True
            if self.rotation is not None and self.rotation.step():
                again, wait_ms = True, BUSY_MS
        except JournalFailed:
            return NEVER_MS  # every verb raises it from now on
        except JournalError:
            again, wait_ms = True, HOUSEKEEP_MS
        return self.clock.now_ms() + wait_ms if again else NEVER_MS

    def _keep_streams_small(self) -> bool:
        """Retain and remove streams, and put out silent members of groups; True while there is something to look at."""
        if self._streams is None:
            return False
        with self.lock:
            gone = self._streams.take_gone()
            self._streams.groups.expire(self.clock.now_ms())
            self._commit_lazily()
        if gone and self.store is not None:
            self.store.commit.force()
        try:
            self._streams.remove(gone)
            self._streams.retain(self.clock.now_ms())
        except (OSError, JournalFailed) as error:
            if self.store is None:
                raise
            raise self.store.commit.fail(error) from error
        with self.lock:
            if self._streams.dirty:
                self.kick()
        return len(self._streams) > 0

    def _delete_blobs(self, large: LargeBodies) -> bool:
        """Delete the blobs of messages that were settled for good; False when some are left."""
        with self.lock:
            released = large.release()
        if released:
            assert self.store is not None, "there are blobs only beside a store"
            self.store.commit.force()
        return not released or large.delete()

    def close(self) -> None:
        """Refuse every verb from now on, wake who waits, and let go of the files."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            self.waiters.wake_all()
        if self.store is not None:
            self.store.hurry()
        self._ticker.stop()
        self._housekeeper.stop()
        try:
            if self._streams is not None:
                healthy = self.store is None or self.store.commit.failed is None
                self._streams.close(self.clock.now_ms()) if healthy else self._streams.abandon()
        finally:
            if self.large is not None:
                self.large.close()
            if self.store is not None:
                self.store.close()
            if self.tracer is not None:
                self.tracer.close()
