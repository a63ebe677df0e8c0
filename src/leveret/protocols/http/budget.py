"""Memory that requests and unread answers take, of all connections to the HTTP servers of a process.

    requests    bytes that are read later, unfinished bodies, and requests that wait or are being answered
    unread      answers that clients have not read, while nothing more is written for that

Bytes are counted as they come. A request that is too much is refused with 503. If unread answers are too much, the
connection is closed whose client has not read for longest.
"""

from collections.abc import Callable

REQUEST_BYTES_MAX = 256 << 20
UNREAD_BYTES_MAX = 256 << 20


class Budget:
    """The memory of all connections together."""

    def __init__(self, request_bytes_max: int = REQUEST_BYTES_MAX, unread_bytes_max: int = UNREAD_BYTES_MAX) -> None:
        self.request_bytes_max = request_bytes_max
        self.request_bytes = 0
        self.unread_bytes = 0
        self.unread_bytes_max = unread_bytes_max
        self._unread: dict[MemoryShare, int] = {}

    def set_unread(self, share: "MemoryShare", size: int) -> None:
        """A connection has so many bytes that its client has not read; 0 when it reads again, or is gone."""
        before = self._unread.get(share, 0)
        self.unread_bytes += size - before
        if size:
            self._unread[share] = size  # at the place of the time when it stopped reading
        else:
            self._unread.pop(share, None)
        while self.unread_bytes > self.unread_bytes_max and self._unread:
            oldest = next(iter(self._unread))
            self.set_unread(oldest, 0)
            oldest.evict()


class MemoryShare:
    """The memory of one connection."""

    __slots__ = ("_budget", "bytes", "evict")

    def __init__(self, budget: Budget, evict: Callable[[], None]) -> None:
        """Nothing yet; `evict` closes the connection."""
        self._budget = budget
        self.bytes = 0
        self.evict = evict

    def add(self, size: int) -> None:
        """Requests of the connection take so many bytes more, or less."""
        self.bytes += size
        self._budget.request_bytes += size

    def set_unread(self, size: int) -> None:
        """The client has not read so many bytes."""
        self._budget.set_unread(self, size)

    @property
    def is_exceeded(self) -> bool:
        """Whether requests of all connections take more than they may."""
        return self._budget.request_bytes > self._budget.request_bytes_max

    def release(self) -> None:
        """The connection is gone."""
        self.add(-self.bytes)
        self.set_unread(0)
        self.evict = _nothing


def _nothing() -> None:
    """Close a connection that is gone."""
