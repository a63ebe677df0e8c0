"""Virtual time, and processes that can be stopped and killed.

Production code that waits (for the database, for its next attempt) runs in a fiber: where it would block its thread,
the fiber rests, and the loop goes on with whatever is due next. One seed is one order of events, always the same.
"""

import heapq
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

Call = Callable[[], object]


class Loop:
    """The time, and what is due when."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self._due: list[tuple[int, int, Call]] = []
        self._numbers = itertools.count()
        self.hub = getcurrent()

    def after(self, delay_ms: float, call: Call) -> None:
        """Call later."""
        heapq.heappush(self._due, (self.now_ms + int(delay_ms), next(self._numbers), call))

    def run(self, until_ms: int) -> None:
        """Let time pass until then."""
        while self._due and self._due[0][0] <= until_ms:
            self.now_ms, _, call = heapq.heappop(self._due)
            call()
        self.now_ms = until_ms

    def delay_ms(self) -> int:
        """How long a message takes: mostly next to nothing, now and then much longer."""
        return self.random.randrange(1, 3) if self.random.random() < 0.97 else self.random.randrange(3, 200)


class Process:
    """Something that runs, until it is stopped for a while or killed for good."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.alive = True
        self._stopped: list[Call] | None = None

    def call(self, call: Call) -> None:
        """Call in this process: later when it is stopped, never when it is dead."""
        if not self.alive:
            return
        if self._stopped is not None:
            self._stopped.append(call)
        else:
            call()

    def after(self, delay_ms: float, call: Call) -> None:
        """Call later in this process."""
        self.loop.after(delay_ms, lambda: self.call(call))

    def spawn(self, work: Call) -> None:
        """Run something that waits."""
        fiber = greenlet(work, self.loop.hub)
        self.after(0, fiber.switch)

    def wait(self, begin: Callable[[Callable[[Any], None]], None]) -> Any:
        """Rest until the function that `begin` gets is called, which must not be at once; give what it was given."""
        if not self.alive:
            raise GreenletExit
        fiber = getcurrent()
        begin(lambda answer: self.call(lambda: fiber.switch(answer)))
        return self.loop.hub.switch()

    def sleep(self, delay_ms: float) -> None:
        """Rest for some time."""
        self.wait(lambda wake: self.loop.after(delay_ms, lambda: wake(None)))

    def stop(self, duration_ms: int) -> None:
        """As SIGSTOP does, and SIGCONT later."""
        if self.alive and self._stopped is None:
            self._stopped = []
            self.loop.after(duration_ms, self._go_on)

    def _go_on(self) -> None:
        held, self._stopped = self._stopped or [], None
        for call in held:
            self.call(call)

    def kill(self) -> None:
        """As SIGKILL does."""
        self.alive = False
