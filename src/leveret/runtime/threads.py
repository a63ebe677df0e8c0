"""Threads: for work that may wait for long, of an event loop, and the one that lets time pass for a broker."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

from leveret.clock import NEVER_MS, Clock, closed_gate, open_gate
from leveret.core.errors import BrokerClosed

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Lock: TypeAlias = "threading.Lock | threading.RLock"


class Threads:
    """Some threads for one kind of work: whatever hangs in them does not hold up other threads."""

    def __init__(self, count_max: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count_max, name)
        self._closed = False

    def run(self, work: Callable[Given, Answer], *given: Given.args, **named: Given.kwargs) -> asyncio.Future[Answer]:
        """Do something in one of them; BrokerClosed when they take nothing more."""
        if self._closed:
            raise BrokerClosed("the server stops: try again when it has started")
        return asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *given, **named))

    def close(self) -> None:
        """Take nothing more; what was begun goes on."""
        self._closed = True
        self._pool.shutdown(wait=False)


class Ticker:
    """A thread that calls back when a planned time has come, however long that takes; started by the first plan."""

    def __init__(self, clock: Clock, lock: Lock, due: Callable[[], int], name: str) -> None:
        """`due` does what is due and gives the next time; it is called without the lock."""
        self._clock = clock
        self._lock = lock
        self._due = due
        self._name = name
        self._gate = closed_gate()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.planned_ms = NEVER_MS

    def plan(self, when_ms: int) -> None:
        """Wake up at a time, or earlier; the caller holds the lock. Later plans than the present one cost nothing."""
        if when_ms >= self.planned_ms or self._stopping:
            return
        self.planned_ms = when_ms
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        else:
            open_gate(self._gate)

    def stop(self) -> None:
        """End the thread; the caller does not hold the lock."""
        with self._lock:
            self._stopping = True
            self.planned_ms = NEVER_MS
            open_gate(self._gate)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            with self._lock:
                until_ms = self.planned_ms
            if self._clock.wait(self._gate, until_ms):
                continue
            with self._lock:
                self.planned_ms = NEVER_MS
            next_ms = self._due()
            with self._lock:
                self.planned_ms = min(self.planned_ms, next_ms)
