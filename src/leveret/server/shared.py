"""What nodes share, as the server has it: all of it is of this process alone while there is no Redis."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from leveret.clock import Clock
from leveret.config import MIB, ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.protocols.http.idempotency import Idempotency
from leveret.protocols.http.limits import Budget, Throttle
from leveret.runtime.shared.answers import Answers
from leveret.runtime.shared.limits import RateLimit
from leveret.security.logins import Failures
from leveret.security.users import Users

if TYPE_CHECKING:
    from leveret.runtime.shared.redis import Redis

BASE64_GROWTH = 4 / 3

Job = Coroutine[Any, Any, None]


class Shared:
    """Rate limits, failed logins and answers, with Redis or without; in the running loop."""

    def __init__(self, options: ServerOptions, clock: Clock) -> None:
        self.redis = redis_of(options)
        self.idempotency = Idempotency(Answers(clock, self.redis))
        self._jobs: list[Callable[[], Job]] = []
        self.throttle = Throttle(self._rate_limit(options, clock), clock)
        # A body of the largest size fits, whatever the option says.
        self.budget = Budget(max(options.http_memory_bytes, 2 * body_bytes_max(options)), options.http_unread_bytes)

    async def start(self, users: Users) -> list[Job]:
        """See whether Redis is there, and go on either way; gives what is to run as long as the server does."""
        if self.redis is not None:
            await self.redis.probe()
            users.count_failures(self.failures("name"), self.failures("origin"))
            self._jobs.append(self.redis.watch)
        return [job() for job in self._jobs]

    async def stop(self) -> None:
        """Share nothing any more."""
        if self.redis is not None:
            await self.redis.close()

    def told(self) -> dict[str, str | None]:
        """For operators: whether limits, failed logins and answers are shared with other nodes, and why not."""
        if self.redis is None:
            return {"state": "none", "trouble": None}
        return {"state": "shared" if self.redis.up else "local", "trouble": self.redis.trouble}

    def degraded(self) -> list[str]:
        """What is not as it should be, and works nevertheless."""
        away = self.redis is not None and not self.redis.up
        return ["redis does not answer: limits are kept by each node alone"] if away else []

    def failures(self, kind: str) -> Failures:
        if self.redis is None:
            return Failures()
        from leveret.runtime.shared.limits import SharedFailures

        return SharedFailures(kind, self.redis)

    def _rate_limit(self, options: ServerOptions, clock: Clock) -> RateLimit | None:
        """How often one may ask; None: without limit."""
        rate, burst = options.http_rate_max, options.http_burst_max
        if not rate:
            return None
        if self.redis is None:
            return RateLimit(rate, burst)
        from leveret.runtime.shared.limits import SharedRateLimit

        limit = SharedRateLimit(rate, burst, self.redis, clock)
        self._jobs.append(limit.run)
        return limit


def body_bytes_max(options: ServerOptions) -> int:
    """The largest body of HTTP: a message of the largest size fits, in base64 with something around it."""
    return int(options.message_bytes_max * BASE64_GROWTH) + MIB


def redis_of(options: ServerOptions) -> Redis | None:
    """The Redis of the options, which is not asked yet."""
    if options.redis is None:
        return None
    try:
        from leveret.runtime.shared.redis import Redis
    except ModuleNotFoundError:
        raise InvalidArgument("redis needs a library: pip install 'leveret[redis]'") from None
    return Redis(options.redis, options.redis_password, options.cluster)
