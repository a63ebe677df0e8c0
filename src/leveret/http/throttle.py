"""Answers too many requests of one client with 429 and the time to wait."""

from collections.abc import Awaitable
from functools import lru_cache

from leveret.clock import Clock
from leveret.http.request import Refusal, Request
from leveret.http.server import Answer, Handler
from leveret.security.peers import origin
from leveret.security.ratelimit import RateLimit

_origin = lru_cache(maxsize=10_000)(origin)


def throttled(handler: Handler, limit: RateLimit, clock: Clock) -> Handler:
    """A handler for requests that are not too many: of one user, if he is known by then, or of one address."""

    def limited(request: Request) -> Answer | Awaitable[Answer]:
        key = _origin(request.peer.host) if request.identity is None else f"user {request.identity.user}"
        wait_ms = limit.take(key, clock.now_ms())
        if wait_ms:
            wait_s = str(-(-wait_ms // 1000))
            raise Refusal(429, f"too many requests: wait {wait_s} s", (("Retry-After", wait_s),))
        return handler(request)

    return limited
