"""What one client may ask of an HTTP server, how often, and the memory that all connections of a process may take.

    requests    bytes that are read later, unfinished bodies, and requests that wait or are being answered
    unread      answers that clients have not read, while nothing more is written for that

Bytes are counted as they come. A request that is too much is refused with 503. If unread answers are too much, the
connection is closed whose client has not read for longest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from leveret.clock import Clock
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Admitted, Answered
from leveret.runtime.shared.limits import RateLimit
from leveret.security.peers import origin

if TYPE_CHECKING:
    from leveret.protocols.http.server import Handler

REQUEST_BYTES_MAX = 256 << 20
UNREAD_BYTES_MAX = 256 << 20
STRANGER_BYTES_MAX = 65_536  # of the body of a request that needs no login, such as the login of the console

_origin = lru_cache(maxsize=10_000)(origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Without them a stranger could fill the memory with bodies, or take all sockets with requests that never end."""

    target_bytes_max: int = 8_192
    """The path and the query: 414."""
    headers_max: int = 100
    head_bytes_max: int = 32_768
    """All names and values of the headers: 431."""
    body_bytes_max: int = 16 << 20
    """One body: 413."""
    trailers_max: int = 20
    """Trailer fields after a chunked body: 431."""
    trailer_bytes_max: int = 4_096
    """All trailer lines of a request: 431."""
    extensions_max: int = 100
    """Chunks of a request that have extensions: 400."""
    extension_bytes_max: int = 4_096
    """All chunk extensions of a request: 400."""
    pipelined_max: int = 500
    """Requests of one connection that wait for the answer to an earlier one: 429. More than are read in one turn."""
    handshake_s: float = 10
    """TLS."""
    head_s: float = 10
    """From the first byte of a request to the end of its headers, and from the connection to that byte: 408."""
    body_s: float = 30
    """For a body: 408. What has come gives more time, at `body_bytes_per_s`."""
    body_bytes_per_s: int = 16_384
    """The rate at which a body has to come, after `body_s`."""
    body_s_max: float = 300
    """For a body, however large it is: 408."""
    idle_s: float = 75
    """Between two requests of a connection."""
    write_s: float = 60
    """That a client may leave an answer unread."""
    linger_s: float = 2
    """That the rest of a refused request is read and thrown away: closing at once would destroy the answer."""

    def time_for_body(self, size: int) -> float:
        """The seconds after which a body has to be complete, if so many bytes of it have come."""
        return min(self.body_s + size / self.body_bytes_per_s, self.body_s_max)


class Budget:
    """The memory of all connections together."""

    def __init__(self, request_bytes_max: int = REQUEST_BYTES_MAX, unread_bytes_max: int = UNREAD_BYTES_MAX) -> None:
        self.request_bytes_max = request_bytes_max
        self.request_bytes = 0
        self.unread_bytes = 0
        self.unread_bytes_max = unread_bytes_max
        self._unread: dict[MemoryShare, int] = {}

    def set_unread(self, share: MemoryShare, size: int) -> None:
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
        self._budget.set_unread(self, size)

    @property
    def is_exceeded(self) -> bool:
        """Whether requests of all connections take more than they may."""
        return self._budget.request_bytes > self._budget.request_bytes_max

    def release(self) -> None:
        self.add(-self.bytes)
        self.set_unread(0)
        self.evict = _nothing


def _nothing() -> None:
    """Close a connection that is gone."""


class Throttle:
    """How often one may ask, over all ports together; without a limit, as often as one likes."""

    def __init__(self, limit: RateLimit | None, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self.refused = 0

    def admit(self, host: str, user: str | None) -> None:
        """Refuse one request too many: of a user, if it is known by then, or of an address."""
        if self._limit is None:
            return
        wait_ms = self._limit.take(_origin(host) if user is None else f"user {user}", self._clock.now_ms())
        if wait_ms:
            self.refused += 1
            wait_s = str(-(-wait_ms // 1000))
            raise Refusal(429, f"too many requests: wait {wait_s} s", (("Retry-After", wait_s),))

    def wrap(self, handler: Handler) -> Handler:
        """A handler for requests that are not too many; the last to say whether the body of one is wanted."""

        def limited(request: Request) -> Answered:
            if self._limit is not None and not request.is_counted:
                self.admit(request.peer.host, None if request.identity is None else request.identity.principal)
            if request.is_body_pending:
                request.is_counted = True
                return Admitted(STRANGER_BYTES_MAX if request.identity is None else None)
            return handler(request)

        return limited
