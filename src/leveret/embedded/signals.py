"""Draining on SIGTERM and SIGINT: the first signal lets work at hand finish, the second one acts as it always did."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Drain:
    """The signal handlers of one worker; without effect when it is not started in the main thread."""

    def __init__(self, stop: Callable[[], None]) -> None:
        """`stop` is called by the handler: it must not take locks."""
        self._stop = stop
        self._previous: dict[int, Any] = {}
        self._received = 0
        self._finished = False
        self.joined = False  # somebody waits for the end, and goes on after it

    def install(self) -> None:
        """Handle signals from now on."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}

    def uninstall(self) -> None:
        """Put back what was there before; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            for number, previous in self._previous.items():
                if signal.getsignal(number) == self._handle:
                    signal.signal(number, signal.SIG_DFL if previous is None else previous)

    def done(self) -> None:
        """The work at hand is finished: unless somebody waited for that, the signal now does what it used to do."""
        self._finished = True
        if self._received and not self.joined:
            os.kill(os.getpid(), self._received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Stop, and tell the next one who wants to know."""
        self.uninstall()
        self._received = number
        self._stop()
        previous = self._previous.get(number)
        if callable(previous) and previous is not signal.default_int_handler:
            previous(number, frame)
        elif self._finished:
            os.kill(os.getpid(), number)
