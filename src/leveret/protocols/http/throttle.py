"""Tells clients that ask too often when to come again: 429 and Retry-After, or what a protocol makes of it."""

from collections.abc import Awaitable
from functools import lru_cache

from leveret.clock import Clock
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Admitted
from leveret.protocols.http.server import Answer, Handler
from leveret.security.peers import origin
from leveret.security.ratelimit import RateLimit

STRANGER_BYTES_MAX = 65_536  # of the body of a request that needs no login, such as the login of the console

_origin = lru_cache(maxsize=10_000)(origin)


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

        def limited(request: Request) -> Answer | Awaitable[Answer]:
            if not request.is_counted:
                self.admit(request.peer.host, None if request.identity is None else request.identity.principal)
            if request.is_body_pending:
                request.is_counted = True
                return Admitted(STRANGER_BYTES_MAX if request.identity is None else None)
            return handler(request)

        return limited
