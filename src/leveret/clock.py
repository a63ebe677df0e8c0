"""The only reader of time: milliseconds since 1970, and waiting until a time comes or a gate is opened.

A gate is a lock that is held while it is closed. A waiter tries to take it; to wake it is to release the lock.
"""

import threading
import time
from typing import Protocol

NEVER_MS = 2**63  # later than every deadline
US_PER_S = 1_000_000


class Clock(Protocol):
    """What tells the time."""

    def now_ms(self) -> int:
        """The time in milliseconds."""

    def now_ns(self) -> int:
        """The time in nanoseconds, as far as it is known."""

    def wait(self, gate: threading.Lock, until_ms: int) -> bool:
        """Wait at a closed gate; False when the time came first. Either way the gate is closed again."""


def closed_gate() -> threading.Lock:
    """A gate to wait at."""
    gate = threading.Lock()
    gate.acquire()
    return gate


def open_gate(gate: threading.Lock) -> None:
    """Let the waiting thread go on, or the next one that waits; an open gate stays open."""
    try:
        gate.release()
    except RuntimeError:
        return


def give_turn() -> None:
    """Let other threads run that are ready to."""
    time.sleep(0)


def ticks_us() -> int:
    """A count of microseconds from some point in the past on, to tell how long something took."""
    return time.perf_counter_ns() // 1_000


def iso_second(second: int) -> str:
    """A second since 1970 as text, without its zone, which is UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


class SystemClock:
    """The clock of the machine. It may go back: the core takes care of that."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_ns(self) -> int:
        return time.time_ns()

    def wait(self, gate: threading.Lock, until_ms: int) -> bool:
        wait_s = max(0, until_ms - self.now_ms()) / 1000
        return gate.acquire(timeout=min(wait_s, threading.TIMEOUT_MAX))


class ManualClock:
    """A clock that stands still until it is told to go on, for tests that must not wait."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._mutex = threading.Lock()
        self._sleepers: dict[threading.Lock, int] = {}

    def now_ms(self) -> int:
        """The time in milliseconds since 1970."""
        return self._now_ms

    def now_ns(self) -> int:
        """The time in nanoseconds since 1970."""
        return self.now_ms() * 1_000_000

    def wait(self, gate: threading.Lock, until_ms: int) -> bool:
        """Wait until another thread opens the gate (true) or `advance` reaches a time (false)."""
        with self._mutex:
            if until_ms <= self._now_ms:
                return gate.acquire(blocking=False)
            self._sleepers[gate] = until_ms
        gate.acquire()
        with self._mutex:
            # `advance` takes a sleeper out when it wakes it: then the time has come.
            return self._sleepers.pop(gate, None) is not None

    def advance(self, seconds: float) -> None:
        """Let time pass; those that waited for it wake up."""
        with self._mutex:
            self._now_ms += round(seconds * 1000)
            due = [gate for gate, until_ms in self._sleepers.items() if until_ms <= self._now_ms]
            for gate in due:
                del self._sleepers[gate]
                open_gate(gate)
