"""Keeps the leases of messages that are being handled: each is extended at half of its time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from leveret.clock import NEVER_MS
from leveret.core.errors import LeveretError
from leveret.embedded.ticker import Ticker

if TYPE_CHECKING:
    from leveret.embedded.message import Message
    from leveret.embedded.queue import Queue


class Extender:
    """One timer for all messages at hand in a worker."""

    def __init__(self, source: Queue) -> None:
        """Extend by the visibility timeout of a queue."""
        self._source = source
        self._clock = source.guard.clock
        self._lock = threading.Lock()
        self._due_ms: dict[Message, int] = {}
        self._ticker = Ticker(self._clock, self._lock, self._due, "leveret-extender")

    def hold(self, message: Message) -> None:
        """Keep a message leased until it is released."""
        lease_ms = self._source.lease_ms
        if lease_ms:
            with self._lock:
                self._due_ms[message] = self._clock.now_ms() + lease_ms // 2
                self._ticker.plan(self._due_ms[message])

    def release(self, message: Message) -> None:
        """Leave a message to itself."""
        with self._lock:
            self._due_ms.pop(message, None)

    def stop(self) -> None:
        """End the thread."""
        self._ticker.stop()

    def _due(self) -> int:
        """Extend what is at half of its time; give the next time."""
        now_ms = self._clock.now_ms()
        with self._lock:
            due = [message for message, when_ms in self._due_ms.items() if when_ms <= now_ms]
        for message in due:
            self._extend(message, now_ms)
        with self._lock:
            return min(self._due_ms.values(), default=NEVER_MS)

    def _extend(self, message: Message, now_ms: int) -> None:
        """Extend one lease; one that ended meanwhile is not kept any more."""
        lease_ms = self._source.lease_ms
        try:
            message.extend(lease_ms / 1000)
        except LeveretError:
            self.release(message)
            return
        with self._lock:
            if message in self._due_ms:
                self._due_ms[message] = now_ms + max(1, lease_ms // 2)
