"""Keeps the leases of messages that are being handled: each is extended at half of its time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from leveret.clock import NEVER_MS, Clock
from leveret.core.errors import LeveretError
from leveret.runtime.threads import Ticker


class Leasable(Protocol):
    """What is leased for a time."""

    def extend(self, seconds: float) -> None:
        """Keep it."""


class LeasedMessage(Leasable, Protocol):
    """A message that was taken."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def headers(self) -> Mapping[str, Any]:
        """The headers that came with it."""

    def ack(self) -> None:
        """Done."""

    def nack(self, delay: float | None = None) -> None:
        """Give it back."""

    def reject(self) -> None:
        """Make it a dead letter."""


class Leased(Protocol):
    """A queue whose messages are taken for a time, or whatever else gives things for a time."""

    @property
    def lease_ms(self) -> int:
        """For how long; 0: for ever."""

    @property
    def clock(self) -> Clock:
        """What tells the time."""


class Extender:
    """One timer for all messages at hand in a worker."""

    def __init__(self, source: Leased) -> None:
        """Extend by the visibility timeout of a queue, or the lease of another source."""
        self._source = source
        self._clock: Clock = source.clock
        self._lock = threading.Lock()
        self._due_ms: dict[Leasable, int] = {}
        self._ticker = Ticker(self._clock, self._lock, self._due, "leveret-extender")
        self.stop = self._ticker.stop

    def hold(self, message: Leasable) -> None:
        """Keep a message leased until it is released."""
        lease_ms = self._source.lease_ms
        if lease_ms:
            with self._lock:
                self._due_ms[message] = self._clock.now_ms() + lease_ms // 2
                self._ticker.plan(self._due_ms[message])

    def release(self, message: Leasable) -> None:
        """Leave a message to itself."""
        with self._lock:
            self._due_ms.pop(message, None)

    def _due(self) -> int:
        """Extend what is at half of its time; give the next time."""
        now_ms = self._clock.now_ms()
        with self._lock:
            due = [message for message, when_ms in self._due_ms.items() if when_ms <= now_ms]
        for message in due:
            self._extend(message, now_ms)
        with self._lock:
            return min(self._due_ms.values(), default=NEVER_MS)

    def _extend(self, message: Leasable, now_ms: int) -> None:
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
