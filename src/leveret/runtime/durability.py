"""When what was appended goes to the disk, and what waits until it is there.

    batch = commits.commit()         under the lock: the commit batch that has everything until now
    commits.wait(batch)              in a thread, not under the lock
    await commits.wait_async(batch)  in an event loop; commits.notifier() for what is no task

    commit batch on the disk --> one call into the event loop --> everything that waits for it, in order

However much waits for a commit batch, the thread that wrote it wakes the event loop once.

What no caller waits for (deliveries, acknowledgements, what time did) goes with the next commit batch, or on its own
after LAZY_COMMIT_MS, or when there is much of it. What only history needs goes with the next one as well, or on its own
after EVENT_COMMIT_MS, and is not synced then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Generic, TypeVar

from leveret.clock import NEVER_MS, Clock
from leveret.core.errors import JournalFailed
from leveret.runtime.threads import Lock
from leveret.storage.journal.commit import Commit, Outcome
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.store import Store
from leveret.storage.stream.store import StreamStore

EARLY_COUNT = 8  # answers that wait for a commit batch before the disk begins with it: it works while the turn goes on
LAZY_COMMIT_MS = 50
LAZY_COMMIT_BYTES = 1 << 20  # a commit batch that is much larger takes its time, and is not kept for reading
EVENT_COMMIT_MS = 1000
EVENT_COMMIT_BYTES = 256 << 10

T = TypeVar("T")


class PendingAnswer(Generic[T]):
    """A value that is good from some moment on; one listener may wait for that, or one task await it.

    A future would cost more: it tells each of its listeners by a call of the loop, with a context of its own. The
    answers that wait for one commit batch are many, and one call tells them all.
    """

    __slots__ = ("_cancelled", "_error", "_listener", "_value", "done")

    def __init__(self, value: T) -> None:
        self._value = value
        self._error: Exception | None = None
        self._listener: Callable[[PendingAnswer[T]], object] | None = None
        self._cancelled = False
        self.done = False

    def add_done_callback(self, listener: Callable[[PendingAnswer[T]], object]) -> None:
        """Call a listener when it is good."""
        assert self._listener is None, "one waits for it"
        self._listener = listener
        if self.done:
            listener(self)

    def cancel(self) -> None:
        """It is not waited for any more."""
        self._cancelled = self.done = True
        self._listener = None

    def finish(self, error: Exception | None = None) -> None:
        """It is good now, or never will be."""
        if not self.done:
            self._error = error
            self.done = True
            if self._listener is not None:
                self._listener(self)

    # As of a future

    def cancelled(self) -> bool:
        """Whether it is not waited for any more."""
        return self._cancelled

    def exception(self) -> Exception | None:
        """Why it never will be good."""
        return self._error

    def result(self) -> T:
        assert self.done, "it is good by now"
        if self._error is not None:
            raise self._error
        return self._value

    def __await__(self) -> Generator[object, None, T]:
        if not self.done:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.add_done_callback(partial(_wake, future))
            yield from future
        return self.result()


def _wake(future: asyncio.Future[None], _: object) -> None:
    """Let a task go on, unless it was cancelled meanwhile."""
    if not future.done():
        future.set_result(None)


class DurableNotifier:
    """Actions that wait for commit batches; for use by one thread."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Outcome]] = {}
        self.count = 0

    def add(self, commit_batch: int, action: Outcome) -> int:
        """Have an action called when a commit batch is durable; give how many wait for that batch."""
        waiting = self._waiting.setdefault(commit_batch, [])
        waiting.append(action)
        self.count += 1
        return len(waiting)

    def notify(self, commit_batch: int, error: JournalFailed | None = None) -> None:
        """Call what waits for a commit batch or an earlier one: it is durable or, with an error, never will be.

        An action that fails does not hold up the others.
        """
        problem: Exception | None = None
        for due in sorted(filter(commit_batch.__ge__, self._waiting)):
            actions = self._waiting.pop(due)
            self.count -= len(actions)
            for action in actions:
                try:
                    action(error)
                except Exception as failure:
                    problem = failure
        if problem is not None:
            raise problem


class LoopThread:
    """The running event loop, as other threads reach it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the loop soon, from any thread; nothing is called in a loop that has ended."""
        try:
            if threading.get_ident() == self._thread:
                self._loop.call_soon(function, *arguments)
            else:
                self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed
            return


class LoopNotifier:
    """The notifier of one event loop: has commit batches written, and answers in the thread of the loop."""

    def __init__(self, commits: CommitScheduler) -> None:
        self._commits = commits
        self._loop = asyncio.get_running_loop()
        self._thread = LoopThread()
        self._notifier = DurableNotifier()
        self._writing = 0  # the last commit batch that this loop asked for and that was not written yet

    def when_durable(self, commit_batch: int, result: T) -> T | PendingAnswer[T]:
        """Give a result when a commit batch is durable."""
        if commit_batch <= self._commits.durable_batch:
            return result
        pending = PendingAnswer(result)
        waiting = self._notifier.add(commit_batch, pending.finish)
        if waiting == 1:
            # At the end of this turn of the loop: what some other requests of the turn do is in the same commit batch.
            self._loop.call_soon(self._write, commit_batch)
        elif waiting == EARLY_COUNT:
            self._write(commit_batch)
        return pending

    async def wait(self, commit_batch: int) -> None:
        pending = self.when_durable(commit_batch, None)
        if pending is not None:
            await pending

    def _write(self, commit_batch: int) -> None:
        """Have a commit batch written, once."""
        if commit_batch <= self._writing:
            return
        self._writing = commit_batch
        try:
            self._commits.write(commit_batch, partial(self._thread.call, self._written, commit_batch))
        except JournalFailed as error:
            self._written(commit_batch, error)

    def _written(self, commit_batch: int, error: JournalFailed | None) -> None:
        """A commit batch is on the disk or never will be."""
        if commit_batch >= self._writing:
            self._writing = 0
        self._notifier.notify(commit_batch, error)


class CommitScheduler:
    """The commit batches of one broker; a broker in memory has none."""

    def __init__(self, lock: Lock, clock: Clock) -> None:
        self.streams: StreamStore | None = None
        self.awaited = False
        """Whether a caller is going to wait for what was done since the lock was taken."""
        self._lock = lock
        self._clock = clock
        self._commit: Commit | None = None
        self._journal: FileJournal | None = None
        self._lazy_ms = NEVER_MS
        self._events_ms = NEVER_MS
        self._lazy_batch = 0  # the one that is to be written then, unless a caller asks for it earlier
        self._lazy_bytes = LAZY_COMMIT_BYTES
        self._notifiers: dict[asyncio.AbstractEventLoop, LoopNotifier] = {}

    def attach(self, store: Store) -> None:
        self._commit = store.commit
        self._journal = store.journal
        self._lazy_bytes = min(LAZY_COMMIT_BYTES, store.options.unwritten_bytes_max)

    def keep_streams(self, streams: StreamStore) -> None:
        """Commit streams together with the journal, if there is one."""
        self.streams = streams
        if self._commit is not None:
            self._commit.companion = streams

    # Under the lock

    def commit(self) -> int:
        """Give the commit batch to wait for, with all that was appended."""
        self.awaited = True
        return 0 if self._commit is None else self._commit.pending

    def kick(self) -> None:
        """Send what was appended to the disk without waiting for it."""
        if self._commit is not None:
            self._commit.kick()

    def commit_streams(self, now_ms: int) -> None:
        """Have what was appended to streams written soon: readers wait for it.

        The caller that asked for the commit batch begins to write it itself.
        """
        if self._commit is not None:
            if not self.awaited:
                self._commit.kick()
        elif self.streams is not None:
            self.streams.commit_now(now_ms)

    def plan(self) -> int:
        """When what no caller waits for is to go to the disk; if it is much, that begins at once."""
        journal = self._journal
        if journal is not None:
            if journal.unwritten_bytes > self._lazy_bytes:
                self.kick()
            if journal.pending != self._lazy_batch and self._is_uncommitted:
                self._lazy_batch = journal.pending
                self._lazy_ms = self._clock.now_ms() + LAZY_COMMIT_MS
            if journal.events_bytes >= EVENT_COMMIT_BYTES:
                self._commit_events()
            elif journal.events_bytes and self._events_ms == NEVER_MS:
                self._events_ms = self._clock.now_ms() + EVENT_COMMIT_MS
        return min(self._lazy_ms, self._events_ms)

    def _commit_events(self) -> bool:
        """Write what only history needs, if the disk is idle."""
        assert self._journal is not None
        sealed = self._journal.seal_events()
        if sealed:
            self.kick()
        return sealed

    def commit_if_due(self) -> bool:
        """Send what no caller waits for to the disk if it is time to; False when it is not, or there is nothing."""
        wrote = False
        if self._is_due(self._events_ms, EVENT_COMMIT_MS):
            self._events_ms = NEVER_MS
            wrote = self._commit_events()
        if self._is_due(self._lazy_ms, LAZY_COMMIT_MS):
            self._lazy_ms = NEVER_MS
            wrote = self.commit_lazily() or wrote
        return wrote

    def _is_due(self, when_ms: int, wait_ms: int) -> bool:
        """Whether the time has come; a clock that was set back does not delay it."""
        return when_ms != NEVER_MS and not 0 < when_ms - self._clock.now_ms() <= wait_ms

    def commit_lazily(self) -> bool:
        """Send what no caller waits for to the disk; False when there is nothing."""
        uncommitted = self._is_uncommitted
        if uncommitted:
            self.kick()
        return uncommitted

    @property
    def _is_uncommitted(self) -> bool:
        if self._journal is None:
            return False
        return self._journal.dirty or (self.streams is not None and self.streams.dirty)

    # From any thread

    @property
    def behind(self) -> bool:
        """Whether the disk is so far behind that publishers must wait."""
        journal, streams = self._journal, self.streams
        if journal is None:
            return False
        return journal.behind or (streams is not None and streams.partitions > 0 and streams.behind)

    @property
    def durable_batch(self) -> int:
        """The last commit batch that is on the disk; 0 for a broker in memory."""
        return 0 if self._journal is None else self._journal.durable

    def check(self) -> None:
        """Refuse to go on after a failure of the disk."""
        failed = None if self._commit is None else self._commit.failed
        if failed is not None:
            raise type(failed)(str(failed)) from failed

    def wait(self, commit_batch: int) -> None:
        """Return when a commit batch is durable; not under the lock."""
        if self._commit is not None:
            self._commit.wait(commit_batch)

    async def wait_async(self, commit_batch: int) -> None:
        """Return when a commit batch is durable, while other tasks run."""
        if commit_batch > self.durable_batch:
            await self.notifier().wait(commit_batch)

    def write(self, commit_batch: int, outcome: Outcome) -> None:
        """Begin to write a commit batch; the thread that writes it, or cannot, calls `outcome` once."""
        assert self._commit is not None, "a broker in memory has no commit batches"
        self._commit.notify(commit_batch, outcome)
        with self._lock:
            self._commit.kick()

    def notifier(self) -> LoopNotifier:
        loop = asyncio.get_running_loop()
        found = self._notifiers.get(loop)
        if found is None:
            with self._lock:
                running = {each: known for each, known in self._notifiers.items() if not each.is_closed()}
                found = LoopNotifier(self)
                self._notifiers = {**running, loop: found}
        return found
