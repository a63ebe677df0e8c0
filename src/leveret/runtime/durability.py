"""What waits for commit batches of the journal.

    commit batch on the disk --> one call into the event loop --> everything that waits for it, in order

However much waits for a commit batch, the thread that wrote it wakes the event loop once.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from leveret.core.errors import JournalFailed
from leveret.runtime.pending import PendingAnswer
from leveret.runtime.threads import LoopThread
from leveret.storage.journal.commit import Outcome

if TYPE_CHECKING:
    from leveret.runtime.commit_scheduler import CommitScheduler

EARLY_COUNT = 8  # answers that wait for a commit batch before the disk begins with it: it works while the turn goes on

T = TypeVar("T")


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
        """Return when a commit batch is durable."""
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
