"""Figures of the connections to PostgreSQL: of all stores, shards and the catalog of this process together.

One object for the process, because the databases limit the connections of a process, not those of a store.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ConnectionFigures:
    """What connections do now, and what was counted since the process started; threads share it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self.open = 0
        self.in_use = 0
        self.waits = 0
        """Statements that waited for another one on the same connection."""
        self.connects = 0
        self.reconnects = 0
        """Of those, the ones that replaced a lost connection."""
        self.errors = 0

    @contextmanager
    def using(self, connection: threading.Lock) -> Iterator[None]:
        """Use a connection, after the thread that has it."""
        if not connection.acquire(blocking=False):
            with self._mutex:
                self.waits += 1
            connection.acquire()
        try:
            with self._mutex:
                self.in_use += 1
            yield
        finally:
            with self._mutex:
                self.in_use -= 1
            connection.release()

    def connected(self, again: bool) -> None:
        with self._mutex:
            self.open += 1
            self.connects += 1
            self.reconnects += again

    def closed(self) -> None:
        with self._mutex:
            self.open -= 1

    def failed(self) -> None:
        """Count an error of the database, or of the way to it."""
        with self._mutex:
            self.errors += 1

    @property
    def used(self) -> bool:
        """Whether this process has anything to do with PostgreSQL."""
        return bool(self.connects or self.errors)


FIGURES = ConnectionFigures()
