"""Doing the work of a message once, whoever gets it how often: a claim on its id, in Redis or in memory.

    free --> claimed, for the lease --> done, for as long as it is kept
      ^------------'  the work failed, or whoever did it has crashed and the lease is over

Between the work and "done" a crash repeats the work: at least once becomes once in effect where work that was not
finished has no effect, or doing it again has the same. Unlike `queue.processed()`, which workers use, it knows of work
that is going on, and takes messages from everywhere: several queues, AMQP, SQS.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple, Protocol

from leveret.clock import Clock, SystemClock
from leveret.core.errors import InvalidArgument, ResourceLocked, Unreachable
from leveret.shared.memory import Memory
from leveret.shared.redis_url import check_redis_url, shown_redis_url
from leveret.shared.scripts import CLAIM, DROP

LEASE_S = 60.0
KEPT_S = 7 * 24 * 3600.0
TIMEOUT_S = 5
ID_CHARS_MAX = 1_024
ENTRIES_MAX = 100_000  # in memory: about 300 bytes each
BYTES_MAX = 1 << 30  # there are so many entries that this is never the limit
SPACE = "leveret/once/"
DONE = b"done"


class Identified(Protocol):
    """A message of ours, or anything else that has an id."""

    @property
    def id(self) -> str:
        """The same for every delivery."""


class Claim(NamedTuple):
    """A message that somebody works on: its key, and the mark that says who."""

    key: str
    mark: bytes


class Claims(Protocol):
    """Where claims are kept."""

    def begin(self, claim: Claim, lease_ms: int) -> bytes | None:
        """Have a claim; if another has it, or it is done, what is there."""

    def done(self, claim: Claim, kept_ms: int) -> None:
        """Remember that the work is done, whoever has the claim by now."""

    def give_up(self, claim: Claim) -> None:
        """Let another try."""

    def close(self) -> None:
        """End."""


class LocalClaims:
    """Claims of this process alone."""

    def __init__(self, clock: Clock) -> None:
        """Nobody works on anything."""
        self._memory = Memory(clock, ENTRIES_MAX, BYTES_MAX)

    def begin(self, claim: Claim, lease_ms: int) -> bytes | None:
        """See Claims."""
        return self._memory.claim(*claim, lease_ms)

    def done(self, claim: Claim, kept_ms: int) -> None:
        """See Claims."""
        self._memory.put(claim.key, DONE, kept_ms)

    def give_up(self, claim: Claim) -> None:
        """See Claims."""
        self._memory.drop(claim.key)

    def close(self) -> None:
        """See Claims."""


class RedisClaims:
    """Claims of everybody who uses the same Redis."""

    def __init__(self, url: str) -> None:
        """Connect when it is needed."""
        self._redis = _library()
        self._shown = shown_redis_url(check_redis_url(url))
        self._client = self._redis.Redis.from_url(url, protocol=2, socket_timeout=TIMEOUT_S)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except self._redis.RedisError as error:
            raise Unreachable(f"{self._shown} does not answer: {error}; the message comes again") from None

    def begin(self, claim: Claim, lease_ms: int) -> bytes | None:
        """See Claims."""
        with self._answering():
            known: bytes = self._client.eval(CLAIM, 1, *claim, lease_ms)
            return known or None

    def done(self, claim: Claim, kept_ms: int) -> None:
        """See Claims."""
        with self._answering():
            self._client.set(claim.key, DONE, px=kept_ms)

    def give_up(self, claim: Claim) -> None:
        """See Claims."""
        with self._answering():
            self._client.eval(DROP, 1, *claim)

    def close(self) -> None:
        """See Claims."""
        self._client.close()


class Once:
    """Claims under one name: each name does the work of a message once.

    `redis` is the URL of a Redis, for several processes; without one it is for this process. The `lease` is seconds and
    has to be longer than the work takes; what is done is known for `keep` seconds.
    """

    def __init__(
        self,
        name: str,
        redis: str | None = None,
        *,
        lease: float = LEASE_S,
        keep: float = KEPT_S,
        clock: Clock | None = None,
    ) -> None:
        """Nothing is claimed yet."""
        if not 0 < len(name) <= ID_CHARS_MAX or lease <= 0 or keep <= 0:
            raise InvalidArgument(f"a name has 1 to {ID_CHARS_MAX} characters, and lease and keep are above 0")
        self._name = name
        self._lease_ms = max(1, round(lease * 1000))
        self._kept_ms = max(1, round(keep * 1000))
        self._claims: Claims = LocalClaims(clock or SystemClock()) if redis is None else RedisClaims(redis)

    @contextmanager
    def claim(self, message: str | Identified) -> Iterator[bool]:
        """Whether the work of a message, or of its id, is to be done; it is done when the block ends without an error.

        Raises ResourceLocked while another does it: give the message back. Raises Unreachable without Redis.
        """
        claim = self.begin(message)
        if claim is None:
            yield False
            return
        try:
            yield True
        except BaseException:
            self.give_up(claim)
            raise
        self.done(claim)

    def begin(self, message: str | Identified) -> Claim | None:
        """The first half of claim: None if the work is done."""
        message_id = message if isinstance(message, str) else message.id
        if not 0 < len(message_id) <= ID_CHARS_MAX:
            raise InvalidArgument(f"the id of a message has 1 to {ID_CHARS_MAX} characters")
        claim = Claim(f"{SPACE}{self._name}/{message_id}", secrets.token_hex(16).encode())
        known = self._claims.begin(claim, self._lease_ms)
        if known is not None and known != DONE:
            raise ResourceLocked(f"another works on message '{message_id}': give it back, for a while")
        return claim if known is None else None

    def done(self, claim: Claim) -> None:
        """The other half, after the work."""
        self._claims.done(claim, self._kept_ms)

    def give_up(self, claim: Claim) -> None:
        """The other half, when the work failed; without Redis the lease does it."""
        with suppress(Unreachable):
            self._claims.give_up(claim)

    def close(self) -> None:
        """Close the connection to Redis."""
        self._claims.close()


class AsyncOnce:
    """The same for asyncio: `async with once.claim(message) as fresh`."""

    def __init__(self, name: str, redis: str | None = None, **options: Any) -> None:
        """Take what Once takes."""
        self._once = Once(name, redis, **options)

    @asynccontextmanager
    async def claim(self, message: str | Identified) -> AsyncIterator[bool]:
        """See Once."""
        claim = await asyncio.to_thread(self._once.begin, message)
        if claim is None:
            yield False
            return
        try:
            yield True
        except BaseException:
            # Also when the task is cancelled: it is done in the thread whether this is waited for or not.
            await asyncio.to_thread(self._once.give_up, claim)
            raise
        await asyncio.to_thread(self._once.done, claim)

    async def close(self) -> None:
        """See Once."""
        await asyncio.to_thread(self._once.close)


def _library() -> Any:
    """The library, which is only there with the extra."""
    try:
        import redis
    except ImportError:
        raise InvalidArgument("claims in Redis need a library: pip install 'leveret[redis]'") from None
    return redis
