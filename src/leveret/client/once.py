"""Doing the work of a message once, whichever workers get it how often: a claim on its id, in Redis or in memory.

    free --> claimed, for the lease --> done, for as long as it is kept
      ^------------'  the work failed, or its worker has crashed and the lease is over

Between the work and "done" a crash repeats the work: at least once becomes once in effect where work that was not
finished has no effect, or doing it again has the same. While the work goes on the lease is extended at half of its
time, up to a limit. Unlike `queue.processed()`, which workers use, it knows of work that is going on, and takes
messages from everywhere: several queues, AMQP, SQS.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Lock
from typing import Any, NamedTuple, Protocol

from leveret.clock import Clock, SystemClock
from leveret.core.errors import InvalidArgument, ResourceLocked, Unreachable
from leveret.runtime.leases import Extender
from leveret.runtime.shared.answers import CLAIM, DROP, ExpiringMemory
from leveret.runtime.shared.keys import check_redis_url, shown_redis_url

LEASE_S = 60.0
LONGEST_S = 3600.0  # a function that hangs does not keep others from the message for ever
KEPT_S = 7 * 24 * 3600.0
ID_CHARS_MAX = 1_024
SPACE = "leveret/once/"
TIMEOUT_S = 5
ENTRIES_MAX = 100_000  # in memory: about 300 bytes each
BYTES_MAX = 1 << 30  # there are so many entries that this is never the limit
DONE = b"done"


class ProcessingMark(NamedTuple):
    """A message that a worker works on: its key, and the mark that says who."""

    key: str
    mark: bytes


class RedisClaims:
    """Claims of all clients that use the same Redis; those of this process alone are in an ExpiringMemory."""

    def __init__(self, url: str) -> None:
        try:
            import redis
        except ImportError:
            raise InvalidArgument("claims in Redis need a library: pip install 'leveret[redis]'") from None
        self._shown = shown_redis_url(check_redis_url(url))
        self._error = redis.RedisError
        self._client: Any = redis.Redis.from_url(url, protocol=2, socket_timeout=TIMEOUT_S)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise Unreachable(f"{self._shown} does not answer: {error}; the message comes again") from None

    def claim(self, key: str, mark: bytes, kept_ms: int) -> bytes | None:
        """Have a claim, or have it for longer; if another has it, or it is done, what is there."""
        with self._answering():
            known: bytes = self._client.eval(CLAIM, 1, key, mark, kept_ms)
            return known or None

    def put(self, key: str, value: bytes, kept_ms: int) -> None:
        """Remember that the work is done, whichever worker has the claim by now."""
        with self._answering():
            self._client.set(key, value, px=kept_ms)

    def drop(self, key: str, mark: bytes) -> None:
        """Let another try."""
        with self._answering():
            self._client.eval(DROP, 1, key, mark)

    def close(self) -> None:
        self._client.close()


Claims = ExpiringMemory | RedisClaims


class Identified(Protocol):
    """A message of ours, or anything else that has an id."""

    @property
    def id(self) -> str:
        """The same for every delivery."""


class Work:
    """A claim whose work goes on."""

    def __init__(self, claims: Claims, claim: ProcessingMark, clock: Clock, until_ms: int) -> None:
        self._claims = claims
        self._claim = claim
        self._clock = clock
        self._until_ms = until_ms
        self._lock = Lock()
        self._ended = False

    def extend(self, seconds: float) -> None:
        """Have the claim for longer; raises ResourceLocked when it is another's, or has been extended for too long."""
        with self._lock, suppress(Unreachable):  # a Redis that is away may be back before the lease is over
            if self._ended:
                return
            if self._clock.now_ms() >= self._until_ms:
                raise ResourceLocked("the work takes too long: others may try it when the lease is over")
            if self._claims.claim(*self._claim, max(1, round(seconds * 1000))) is not None:
                raise ResourceLocked("another has the claim: the lease was over")

    def end(self) -> None:
        """Extend it no more; what is under way has ended when this returns."""
        with self._lock:
            self._ended = True


class Once:
    """Claims under one name: each name does the work of a message once.

    `redis` is the URL of a Redis, for several processes; without one it is for this process. A claim lasts for `lease`
    seconds without news, and is extended while its block goes on, for `longest` seconds; what is done is known for
    `keep` seconds.
    """

    def __init__(
        self,
        name: str,
        redis: str | None = None,
        *,
        lease: float = LEASE_S,
        longest: float = LONGEST_S,
        keep: float = KEPT_S,
        clock: Clock | None = None,
    ) -> None:
        if not 0 < len(name) <= ID_CHARS_MAX or min(lease, longest, keep) <= 0:
            raise InvalidArgument(f"a name has 1 to {ID_CHARS_MAX} characters; lease, longest and keep are above 0")
        self._name = name
        self.lease_ms = max(1, round(lease * 1000))
        self._longest_ms = round(longest * 1000)
        self._kept_ms = max(1, round(keep * 1000))
        self.clock: Clock = clock or SystemClock()
        self._claims: Claims = (
            ExpiringMemory(self.clock, ENTRIES_MAX, BYTES_MAX) if redis is None else RedisClaims(redis)
        )
        self._works: dict[ProcessingMark, Work] = {}
        self._extender = Extender(self)

    @contextmanager
    def claim(self, message: str | Identified) -> Iterator[bool]:
        """Whether the work of a message, or of its id, is to be done; it is done when the block ends without an error.

        Raises ResourceLocked while another does it: give the message back. Raises Unreachable without Redis.
        """
        claim = self.begin(message)
        if claim is None:
            yield False
            return
        self.extend(claim)
        try:
            yield True
        except BaseException:
            self.give_up(claim)
            raise
        self.done(claim)

    def begin(self, message: str | Identified) -> ProcessingMark | None:
        """The first half of claim: None if the work is done."""
        message_id = message if isinstance(message, str) else message.id
        if not 0 < len(message_id) <= ID_CHARS_MAX:
            raise InvalidArgument(f"the id of a message has 1 to {ID_CHARS_MAX} characters")
        claim = ProcessingMark(f"{SPACE}{self._name}/{message_id}", secrets.token_hex(16).encode())
        known = self._claims.claim(*claim, self.lease_ms)
        if known is not None and known != DONE:
            raise ResourceLocked(f"another works on message '{message_id}': give it back, for a while")
        return claim if known is None else None

    def extend(self, claim: ProcessingMark) -> None:
        """Extend the lease of a claim from now on, until it is done or given up."""
        work = Work(self._claims, claim, self.clock, self.clock.now_ms() + self._longest_ms)
        self._works[claim] = work
        self._extender.hold(work)

    def _end(self, claim: ProcessingMark) -> None:
        """Extend it no more."""
        work = self._works.pop(claim, None)
        if work is not None:
            self._extender.release(work)
            work.end()

    def done(self, claim: ProcessingMark) -> None:
        """The other half, after the work."""
        self._end(claim)
        self._claims.put(claim.key, DONE, self._kept_ms)

    def give_up(self, claim: ProcessingMark) -> None:
        """The other half, when the work failed; without Redis the lease does it."""
        self._end(claim)
        with suppress(Unreachable):
            self._claims.drop(*claim)

    def close(self) -> None:
        """Extend nothing any more, and close the connection to Redis."""
        self._extender.stop()
        if isinstance(self._claims, RedisClaims):
            self._claims.close()


class AsyncOnce:
    """The same for asyncio: `async with once.claim(message) as fresh`."""

    def __init__(self, name: str, redis: str | None = None, **options: Any) -> None:
        self._once = Once(name, redis, **options)

    @asynccontextmanager
    async def claim(self, message: str | Identified) -> AsyncIterator[bool]:
        """Claim a message as `Once.claim` does."""
        claim = await asyncio.to_thread(self._once.begin, message)
        if claim is None:
            yield False
            return
        self._once.extend(claim)
        try:
            yield True
        except BaseException:
            # Also when the task is cancelled: it is done in the thread whether this is waited for or not.
            await asyncio.to_thread(self._once.give_up, claim)
            raise
        await asyncio.to_thread(self._once.done, claim)

    async def close(self) -> None:
        """Release what the store holds."""
        await asyncio.to_thread(self._once.close)
