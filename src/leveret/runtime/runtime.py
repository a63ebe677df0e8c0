"""The one lock around the core, and what happens when it is taken and let go.

    with runtime:                   the core learns the time; what is due happens
        ...verbs of the core...
        batch = runtime.commit()    what was appended is to go to the disk
    runtime.wait(batch)             until it is there; never under the lock

Its parts: the CommitScheduler has the commit batches and what waits for them, the QueueDispatcher lets time pass and
hands out what is ready, Waiters are the threads and tasks that wait for messages, the Housekeeper has the store.

What a broker does beside its messages: checkpoints, compaction, retention of streams, deletion of large bodies.

It has a thread of its own, because it waits for disks and blob stores, which must not hold up a message that is due.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from leveret.clock import NEVER_MS, Clock, give_turn
from leveret.config import Options
from leveret.core.broker import Broker
from leveret.core.dispatch import pump
from leveret.core.errors import BrokerClosed, JournalError, JournalFailed
from leveret.observability.tracing import BrokerTracer
from leveret.runtime.durability import CommitScheduler, DurableNotifier
from leveret.runtime.key_rotation import OtherKeys, Rotation
from leveret.runtime.large_bodies import LargeBodies
from leveret.runtime.receipts import Receipts
from leveret.runtime.threads import Lock, Ticker
from leveret.runtime.waiters import Waiters
from leveret.storage.journal.history import LOOK_MS
from leveret.storage.journal.store import Store
from leveret.storage.stream.store import StreamStore


class QueueDispatcher:
    """Has the core do what is due, whenever the lock is taken, and in a thread when no verb takes it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._core = runtime.core
        self._clock = runtime.clock
        self._ticker = Ticker(runtime.clock, runtime.lock, self._due, "leveret-ticker")
        self.stop = self._ticker.stop
        self.problem: Exception | None = None
        """Of a queue that could not be read, beside the verbs; raised when the lock is let go."""

    # Under the lock

    def tick(self) -> bool:
        """Let time pass; True when more is due. Whatever cannot be done then is no reason to refuse a verb."""
        try:
            return self._core.tick(self._clock.now_ms())
        except JournalFailed:
            raise
        except Exception as error:
            self.problem = error
            return True

    def dispatch(self) -> None:
        """Push to consumers and wake waiters; a queue that cannot be read does not hold up the others."""
        problem: Exception | None = None
        while self._core.engine.dirty and problem is None:
            for queue in self._core.take_dirty():
                try:
                    if queue.consumers:
                        pump(queue)
                except JournalFailed:
                    raise
                except Exception as error:
                    problem = self.problem = error
                self._runtime.waiters.wake(queue)

    def plan(self) -> None:
        """Wake up when something is due: in the core, or to be committed."""
        next_ms, deadline_ms = self._runtime.commits.plan(), self._core.engine.next_deadline_ms
        if deadline_ms is not None and deadline_ms < next_ms:
            next_ms = deadline_ms
        if next_ms < self._ticker.planned_ms:
            self._ticker.plan(next_ms)

    # In the thread

    def _due(self) -> int:
        """Do what is due; give the time of what is next."""
        try:
            with self._runtime.lock:
                more = self.tick()
                self.dispatch()
                if self._runtime.commits.commit_if_due():
                    self._runtime.housekeeper.plan()
                return self._core.now_ms if more else self._next_ms()
        except JournalFailed:
            return NEVER_MS  # every verb raises it from now on

    def _next_ms(self) -> int:
        """When there is something to do again."""
        deadline_ms = self._core.next_deadline_ms
        next_ms = min(self._runtime.commits.plan(), NEVER_MS if deadline_ms is None else deadline_ms)
        if self._core.engine.dirty:
            next_ms = min(next_ms, self._core.now_ms + HOUSEKEEP_MS)  # what could not be read may be there again
        return next_ms


HOUSEKEEP_MS = 1_000  # how often, while something is written, checkpoints and compaction get a chance
BUSY_MS = 10  # between two rounds of a compaction: others get the disk and the lock
HOUSEKEEP_STEPS = 8  # segments that one round may remove: a fast publisher must not outrun it
HOUSEKEEP_SEGMENTS = 2  # segments that may be written before the next round, however little time has passed


class Housekeeper:
    """Looks after the store of one broker, a bounded piece at a time; idle while nothing is written."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self._ticker = Ticker(runtime.clock, runtime.lock, self.step, "leveret-housekeeper")
        self.stop = self._ticker.stop
        self._segment = 0
        self._idle = True
        """Whether there is no look soon: at most one at history, which may be old by then."""
        self._durable = 0
        self.rotation: Rotation | None = None

    # Under the lock

    def plan(self) -> None:
        """Look around soon, unless that is planned."""
        if self._idle:
            self._idle = False
            self._ticker.plan(self._clock.now_ms() + HOUSEKEEP_MS)

    def attach(self, store: Store) -> None:
        """Look after a store from now on."""
        self._segment = store.journal.segment + HOUSEKEEP_SEGMENTS
        if store.journal.full or store.watched or store.history.figures.segments:
            self.plan()  # nothing is committed as long as all publishes are refused: look for room

    def written(self, segment: int) -> None:
        """Something was appended to a segment of the journal: look around soon, at once if there are some new ones."""
        self.plan()
        if segment >= self._segment:
            self._segment = segment + HOUSEKEEP_SEGMENTS
            self._ticker.plan(self._clock.now_ms())

    def rotate_key(self, other_keys: OtherKeys) -> Rotation:
        """Encrypt everything by the first key from now on; the rotation that is under way, if there is one."""
        if self.rotation is None or self.rotation.progress.state != "running":
            self.rotation = Rotation(self._runtime, other_keys)
            self._ticker.plan(self._clock.now_ms())
        return self.rotation

    # In its own thread

    def step(self) -> int:
        """Checkpoint, compact and delete a bounded piece; give the time of the next one."""
        self._idle = True
        try:
            wait_ms = self._step()
        except JournalFailed:
            return NEVER_MS  # every verb raises it from now on
        except JournalError:
            wait_ms = HOUSEKEEP_MS
        return NEVER_MS if wait_ms is None else self._clock.now_ms() + wait_ms

    def _step(self) -> int | None:
        """The same; after how long there is more, None when there is not."""
        streams, store, large = self._runtime.commits.streams, self._runtime.store, self._runtime.large
        again = streams is not None and self._keep_streams_small(streams)
        if store is None:
            return HOUSEKEEP_MS if again else None
        more = all(store.housekeep() for _ in range(HOUSEKEEP_STEPS))
        again = again or more or store.watched or store.journal.full or store.drains
        again = again or store.archive_problem is not None or store.journal.durable != self._durable
        self._durable = store.journal.durable  # what is under way may fill the disk after this look: there is one more
        if large is not None and not self._delete_blobs(large, store):
            again = True
        if self.rotation is not None and self.rotation.step():
            return BUSY_MS
        if again:
            return BUSY_MS if more else HOUSEKEEP_MS
        return LOOK_MS if store.history.figures.segments else None

    def _keep_streams_small(self, streams: StreamStore) -> bool:
        """Retain and remove streams, and put out silent members of groups; True while there is something to look at."""
        store, commits = self._runtime.store, self._runtime.commits
        with self._runtime.lock:
            gone = streams.take_gone()
            streams.groups.expire(self._clock.now_ms())
            if commits.commit_lazily():
                self.plan()
        if gone and store is not None:
            store.commit.force()
        try:
            streams.remove(gone)
            streams.retain(self._clock.now_ms())
        except (OSError, JournalFailed) as error:
            if store is None:
                raise
            raise store.commit.fail(error) from error
        with self._runtime.lock:
            if streams.dirty:
                commits.kick()
        return len(streams) > 0

    def _delete_blobs(self, large: LargeBodies, store: Store) -> bool:
        """Delete the blobs of messages that were settled for good; False when some are left."""
        with self._runtime.lock:
            released = large.release()
        if released:
            store.commit.force()
        return not released or large.delete()


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
        self.dispatch = self._dispatcher.dispatch
        self.kick, self.wait, self.wait_async = self.commits.kick, self.commits.wait, self.commits.wait_async
        self._hears_durable: Callable[[int], None] | None = None
        self._awaited: DurableNotifier | None = None

    @property
    def streams(self) -> StreamStore:
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
            if self.store is not None and self.store.commit.failed is not None:
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

    # Durability

    def commit(self) -> int:
        """Give the commit batch to wait for, with all that was appended. The caller holds the lock."""
        if self.store is not None:
            self.housekeeper.written(self.store.journal.segment)
        return self.commits.commit()

    @property
    def behind(self) -> bool:
        """Whether the disk is so far behind that publishers must wait."""
        return self.commits.behind

    @property
    def durable_batch(self) -> int:
        """The last commit batch that is on the disk; 0 for a broker in memory."""
        return self.commits.durable_batch

    def on_durable(self, callback: Callable[[int], None], awaited: DurableNotifier | None = None) -> None:
        """Call back with the number of each commit batch that has become durable, from whatever thread wrote it.

        The callback sees to it that the lock is taken soon, which wakes the readers of streams. With `awaited` it is
        called only if something waits there, or such a reader.
        """
        self._hears_durable, self._awaited = callback, awaited

    def _durable(self, commit_batch: int) -> None:
        """A commit batch is durable: readers of streams can go on. From whatever thread wrote it."""
        if self.tracer is not None:
            self.tracer.durable(commit_batch)
        if self._hears_durable is not None:
            if self._awaited is None or self._awaited.count or self.core.engine.dirty:
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
            if self.store is not None:
                self.core.count()
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
