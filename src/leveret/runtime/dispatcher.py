"""Time, and what is ready: pushed to consumers, and taken by the threads and tasks that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.clock import NEVER_MS
from leveret.core.dispatch import pump
from leveret.core.errors import JournalFailed
from leveret.runtime.housekeeper import HOUSEKEEP_MS
from leveret.runtime.threads import Ticker

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime


class QueueDispatcher:
    """Has the core do what is due, whenever the lock is taken, and in a thread when no verb takes it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._core = runtime.core
        self._clock = runtime.clock
        self._ticker = Ticker(runtime.clock, runtime.lock, self._due, "leveret-ticker")
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
        self._ticker.plan(self._runtime.commits.plan())
        deadline_ms = self._core.next_deadline_ms
        if deadline_ms is not None and deadline_ms < self._ticker.planned_ms:
            self._ticker.plan(deadline_ms)

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

    def stop(self) -> None:
        """End the thread; the caller does not hold the lock."""
        self._ticker.stop()
