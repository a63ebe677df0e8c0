"""Threads for work that may wait for long, and the thread of an event loop."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from leveret.core.errors import BrokerClosed

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


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


class LoopThread:
    """The running event loop, as other threads reach it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the loop soon, from any thread; nothing is called in a loop that has ended."""
        try:
            if threading.get_ident() == self._thread:
                self._loop.call_soon(function, *arguments)
            else:
                self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed
            return
