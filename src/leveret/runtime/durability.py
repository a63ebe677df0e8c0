"""What waits for commit batches of the journal.

    commit batch on the disk --> one call into the event loop --> everything that waits for it, in order

However much waits for a commit batch, the thread that wrote it wakes the event loop once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from leveret.core.errors import JournalFailed
from leveret.runtime.threads import LoopThread
from leveret.storage.journal.commit import Outcome

if TYPE_CHECKING:
    from leveret.runtime.commit_scheduler import CommitScheduler

EARLY_COUNT = 8  # answers that wait for a commit batch before the disk begins with it: it works while the turn goes on

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
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, commit_batch: int, action: Outcome) -> int:
        """Have an action called when a commit batch is durable; give how many wait for that batch."""
        waiting = self._waiting.setdefault(commit_batch, [])
        waiting.append(action)
        self._count += 1
        return len(waiting)

    def notify(self, commit_batch: int, error: JournalFailed | None = None) -> None:
        """Call what waits for a commit batch or an earlier one: it is durable or, with an error, never will be.

        An action that fails does not hold up the others.
        """
        problem: Exception | None = None
        for due in sorted(each for each in self._waiting if each <= commit_batch):
            actions = self._waiting.pop(due)
            self._count -= len(actions)
            for action in actions:
                try:
                    action(error)
                except Exception as failure:
                    problem = failure
        if problem is not None:
            raise problem


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
