"""Going through what waits in a queue, step by step, to do something with the messages that a filter chose.

Each step is one hold of the lock and one commit batch. What arrives after the start is left alone, so that a sweep
ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core import browse
from leveret.core.broker import Broker as Core
from leveret.core.filters import Filter
from leveret.core.held import Held
from leveret.core.message import Message as Content
from leveret.core.queue import Queue as CoreQueue

if TYPE_CHECKING:
    from leveret.core.browse import Cursor
    from leveret.runtime.runtime import Runtime

STEP = 500  # messages that one hold of the lock looks at


class Sweep:
    """One way through one queue; what is done with a message is in `take`."""

    def __init__(self, runtime: Runtime, source: CoreQueue, chosen: Filter, limit: int | None, dry_run: bool) -> None:
        """Nothing was looked at yet; a dry run only counts."""
        self._runtime = runtime
        self._source = source
        self._chosen = chosen
        self._limit = limit
        self._dry_run = dry_run
        self._cursor: Cursor | None = ()
        self._last_seq = 0
        self.matched = 0

    def begin(self) -> None:
        """Note what is there now; what comes later is left alone."""
        with self._runtime as core:
            self._last_seq = core.engine.last_seq
            self.check(core)

    def check(self, core: Core) -> None:
        """Refuse what cannot be done at all; under the lock."""

    def take(self, core: Core, held: Held, content: Content) -> None:
        """Do it with one message; under the lock."""
        raise NotImplementedError

    def step_size(self) -> int:
        """How many messages the next step looks at."""
        return STEP

    @property
    def ended(self) -> bool:
        """Whether everything was looked at."""
        return self._cursor is None

    def step(self) -> int:
        """Look at some messages, and take those that are meant; give the commit batch to wait for."""
        with self._runtime as core:
            seen, self._cursor = browse.ready_after(self._source, self._cursor or (), self.step_size())
            for held in seen:
                if self._limit is not None and self.matched >= self._limit:
                    self._cursor = None
                    break
                content = browse.read(held)
                if held.seq <= self._last_seq and self._chosen.accepts(content):
                    self.matched += 1
                    if not self._dry_run:
                        self.take(core, held, content)
            return self._runtime.commit()


class Discard(Sweep):
    """Removes what a filter chose, for good."""

    def run(self) -> int:
        """Step by step until the end; give the number of messages."""
        self.begin()
        while not self.ended:
            self._runtime.wait(self.step())
        return self.matched

    def take(self, core: Core, held: Held, content: Content) -> None:
        """Remove one."""
        withdrawn = browse.withdraw(self._source, held)
        assert withdrawn is not None, "what was ready in this hold of the lock still is"
        browse.discarded(withdrawn)
