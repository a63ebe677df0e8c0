"""An answer that waits for the disk: a future at a fraction of its price.

A future tells each of its listeners by a call of the loop, with a context of its own. The answers that wait for one
frame of the journal are many, and one call tells them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")


class PendingAnswer(Generic[T]):
    """A value that is good from some moment on; one listener may wait for that, or one task await it."""

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
        """The value."""
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
