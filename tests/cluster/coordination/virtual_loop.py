"""An event loop whose time is made up: waiting takes none."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Lets time pass where others would wait."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits for something that never comes"
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """For one process without I/O."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now_s


def run(job: Coroutine[Any, Any, T]) -> T:
    """Run something in time that is made up."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(job)
