"""What all connections share: the broker under its lock, the list of what is to be sent, and what waits for the disk.

receive -> [lock: frames, publishes, acks; pump to consumers] -> confirms wait for a frame of the journal
durable -> [lock: confirms and held replies of that frame] -> flush: one write for each connection
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from leveret.amqp.outbox import Outbox
from leveret.core.broker import Broker
from leveret.core.errors import JournalFailed, LeveretError

if TYPE_CHECKING:
    from leveret.amqp.connection import Connection

_log = logging.getLogger("leveret.amqp")


class Guard(Protocol):
    """The broker under its lock, as leveret.embedded.guard.Guard has it."""

    core: Broker

    def __enter__(self) -> Broker:
        """Take the lock and let time pass."""

    def __exit__(self, *error: object) -> None:
        """Push to consumers and let the lock go."""

    @property
    def behind(self) -> bool:
        """Whether the disk is far behind."""

    def commit(self) -> int:
        """The frame of the journal that has all that was done until now."""

    def kick(self) -> None:
        """Write that frame at once."""


class Hub:
    """The meeting point of connections, broker and journal; used by one thread, the event loop's."""

    def __init__(self, guard: Guard, wake: Callable[[], object]) -> None:
        """Serve the broker of a guard; `wake` makes the loop call `flush` soon, from whatever thread."""
        self.guard = guard
        self.core = guard.core
        self.outbox = Outbox(wake)
        self.connections: set[Connection] = set()
        self.durable_frame = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._slowed: list[Connection] = []

    # One turn

    def receive(self, connection: Connection, data: bytes | bytearray | memoryview) -> None:
        """Take what came from a socket."""
        self.run(connection, lambda: connection.receive(data))

    def run(self, connection: Connection, action: Callable[[], None]) -> None:
        """Let a connection do something, and see to what it leaves behind."""
        try:
            with self.guard:
                action()
                self._confirm_later(connection)
                if self.guard.behind and not connection.finished:
                    connection.waiting = True
                    self._slowed.append(connection)
        except JournalFailed:
            raise
        except LeveretError:
            _log.exception("messages could not be pushed to consumers")

    def _confirm_later(self, connection: Connection) -> None:
        """Confirm the new publishes of a connection when they are durable."""
        channels = connection.take_unconfirmed()
        if channels:

            def confirm() -> None:
                for channel, through in channels:
                    channel.confirm(through)

            self.when_durable(confirm)

    def when_durable(self, action: Callable[[], None]) -> None:
        """Do something when all that was done until now is on the disk; under the guard."""
        frame = self.guard.commit()
        if frame <= self.durable_frame:
            action()
            return
        self._waiting.append((frame, action))
        self.guard.kick()

    def durable(self, frame: int) -> None:
        """A frame of the journal is on the disk, and all before it."""
        with self.guard:
            self.durable_frame = max(self.durable_frame, frame)
            while self._waiting and self._waiting[0][0] <= self.durable_frame:
                self._waiting.popleft()[1]()
        if self._slowed and not self.guard.behind:
            slowed, self._slowed = self._slowed, []
            for connection in slowed:
                connection.waiting = False
                self.run(connection, connection.drain)

    def feed_consumers(self, connections: list[Connection]) -> None:
        """Push to those whose output was full and is not any more."""
        starved = [each for each in connections if each.outlet.starved and not each.outlet.paused]
        if starved:
            with self.guard:
                for connection in starved:
                    connection.outlet.starved = False
                    for channel in connection.channels.values():
                        channel.resume()
