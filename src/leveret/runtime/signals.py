"""Draining on SIGTERM and SIGINT: the first signal lets work at hand finish, the second one acts as it always did.

Signals are of the process, so all its workers are drained together. When the last of them is done, a thread that waits
for one of them goes on; if none does, the signal does at last what it used to do.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
Stop = Callable[[], None]


class WorkerSignals:
    """The signal handlers of all workers; without effect until one of them is started in the main thread."""

    def __init__(self) -> None:
        self._working: list[Stop] = []
        self._mutex = threading.Lock()
        self._previous: dict[int, Any] = {}
        self._received = 0
        self._awaited = False

    def enter(self, stop: Stop, awaited: bool) -> None:
        """A worker begins; `stop` is called by the signal handler, so it must not take locks."""
        with self._mutex:
            if not self._working:
                self._received, self._awaited = 0, False
            self._awaited = self._awaited or awaited
            self._working.append(stop)
        if threading.current_thread() is threading.main_thread() and not self._previous:
            self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}

    def await_end(self) -> None:
        """A thread waits for the end of a worker, and goes on after it."""
        self._awaited = True

    def leave(self, stop: Stop) -> None:
        """A worker has finished."""
        with self._mutex:
            self._working.remove(stop)
            over = not self._working and self._received and not self._awaited
        if over:
            os.kill(os.getpid(), self._received)

    def restore(self) -> None:
        """Put back what was there before the first worker, when there is none any more; only the main thread can."""
        if threading.current_thread() is threading.main_thread() and not self._working:
            self._restore()

    def _restore(self) -> None:
        """Put back the handlers that were there before."""
        previous, self._previous = self._previous, {}
        for number, handler in previous.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, commit_batch: FrameType | None) -> None:
        """Stop all workers, and wake the thread that waits for the stop. Takes no lock."""
        previous = self._previous.get(number)
        self._received = number
        working = list(self._working)
        for stop in working:
            stop()
        self._restore()
        if callable(previous):
            # Python's own handler raises KeyboardInterrupt, and so does Spark's: work at hand is drained instead.
            with suppress(KeyboardInterrupt) if working else nullcontext():
                previous(number, commit_batch)
        elif not working:
            os.kill(os.getpid(), number)


DRAIN = WorkerSignals()
"""The one of this process."""
