"""Threads, tasks and requests that wait for a message of a queue, in the order in which they came.

There is no polling: a queue that has waiters is `watched`, the core says when it got something, and as many waiters
are woken as there are messages. A waiter that finds that another was quicker goes on waiting, at the front. Everything
here happens under the lock of the broker.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from leveret.clock import Clock, closed_gate, open_gate
from leveret.core.queue import Queue
from leveret.runtime.durability import LoopThread


class Waiter(Protocol):
    """A thread, task or request that can be woken."""

    def wake(self) -> None:
        """Let it look again."""


class ThreadWaiter:
    """A thread that waits at a gate."""

    __slots__ = ("gate", "stopped")

    def __init__(self) -> None:
        self.gate: threading.Lock = closed_gate()
        self.stopped = False

    def stop(self) -> None:
        """Let it give up; takes no lock."""
        self.stopped = True
        open_gate(self.gate)

    def wake(self) -> None:
        open_gate(self.gate)

    async def wait(self, clock: Clock, until_ms: int) -> bool:
        """Block until it is woken; False when the time came first."""
        return clock.wait(self.gate, until_ms)


class TaskWaiter:
    """A task that waits for an event of its loop."""

    __slots__ = ("_event", "_thread")
    stopped = False  # it is cancelled instead

    def __init__(self) -> None:
        self._thread = LoopThread()
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._thread.call(self._event.set)

    async def wait(self, clock: Clock, until_ms: int) -> bool:
        """Wait to be woken, while other tasks run; False when the time came first."""
        try:
            # Not wait_for: that of Python 3.11 forgets a cancellation which comes together with the event.
            async with asyncio.timeout(max(0, until_ms - clock.now_ms()) / 1000):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Waiters:
    """The waiters of all queues."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[Waiter]] = {}
        self._woken: set[Waiter] = set()

    def join(self, queue: Queue, waiter: Waiter) -> None:
        """Wait for a message of a queue, behind the others."""
        self._lines.setdefault(queue.id, deque()).append(waiter)
        queue.watched = True

    def rejoin(self, queue: Queue, waiter: Waiter) -> None:
        """Go on waiting after waking up in vain, in front of those who came later."""
        if waiter in self._woken:
            self._woken.discard(waiter)
            self._lines.setdefault(queue.id, deque()).appendleft(waiter)
            queue.watched = True

    def leave(self, queue: Queue, waiter: Waiter) -> None:
        """Stop waiting; what is still there is for the next one."""
        self._woken.discard(waiter)
        line = self._lines.get(queue.id)
        if line is None:
            return
        if waiter in line:
            line.remove(waiter)
        if not line:
            self._close(queue)
        elif queue.depth and queue.recorder is None:
            self.wake(queue)

    def wake(self, queue: Queue) -> None:
        """Wake as many as there are messages to take; all of them, if it is a stream, which all of them read."""
        line = self._lines.get(queue.id)
        if line is None:
            return
        for _ in range(len(line) if queue.recorder is not None else min(queue.depth, len(line))):
            waiter = line.popleft()
            self._woken.add(waiter)
            waiter.wake()
        if not line:
            self._close(queue)

    def wake_all(self, queues: Iterable[int] | None = None) -> None:
        """Wake all waiters, or those of some queues: their queue was deleted."""
        for number in list(self._lines if queues is None else queues):
            for waiter in self._lines.pop(number, ()):
                self._woken.add(waiter)
                waiter.wake()

    def count(self, queue: Queue) -> int:
        return len(self._lines.get(queue.id, ()))

    def watch(self, queue: Queue) -> None:
        """Have the core tell of a queue as long as there are waiters."""
        queue.watched = bool(queue.consumers) or queue.id in self._lines

    def _close(self, queue: Queue) -> None:
        del self._lines[queue.id]
        self.watch(queue)
