"""Claims on the work of messages: in Redis, for all who use it, or in the memory of one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from leveret.clock import Clock
from leveret.core.errors import InvalidArgument, Unreachable
from leveret.runtime.shared.memory import ExpiringMemory
from leveret.runtime.shared.redis_url import check_redis_url, shown_redis_url
from leveret.runtime.shared.scripts import CLAIM, DROP

TIMEOUT_S = 5
ENTRIES_MAX = 100_000  # in memory: about 300 bytes each
BYTES_MAX = 1 << 30  # there are so many entries that this is never the limit
DONE = b"done"


class ProcessingMark(NamedTuple):
    """A message that a worker works on: its key, and the mark that says who."""

    key: str
    mark: bytes


class Claims(Protocol):
    """Where claims are kept."""

    def begin(self, claim: ProcessingMark, lease_ms: int) -> bytes | None:
        """Have a claim, or have it for longer; if another has it, or it is done, what is there."""

    def done(self, claim: ProcessingMark, kept_ms: int) -> None:
        """Remember that the work is done, whichever worker has the claim by now."""

    def give_up(self, claim: ProcessingMark) -> None:
        """Let another try."""

    def close(self) -> None:
        """End."""


class LocalClaims:
    """Claims of this process alone."""

    def __init__(self, clock: Clock) -> None:
        self._memory = ExpiringMemory(clock, ENTRIES_MAX, BYTES_MAX)

    def begin(self, claim: ProcessingMark, lease_ms: int) -> bytes | None:
        return self._memory.claim(*claim, lease_ms)

    def done(self, claim: ProcessingMark, kept_ms: int) -> None:
        self._memory.put(claim.key, DONE, kept_ms)

    def give_up(self, claim: ProcessingMark) -> None:
        self._memory.drop(*claim)

    def close(self) -> None:
        """See Claims."""


class RedisClaims:
    """Claims of all clients that use the same Redis."""

    def __init__(self, url: str) -> None:
        self._redis = _library()
        self._shown = shown_redis_url(check_redis_url(url))
        self._client = self._redis.Redis.from_url(url, protocol=2, socket_timeout=TIMEOUT_S)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except self._redis.RedisError as error:
            raise Unreachable(f"{self._shown} does not answer: {error}; the message comes again") from None

    def begin(self, claim: ProcessingMark, lease_ms: int) -> bytes | None:
        with self._answering():
            known: bytes = self._client.eval(CLAIM, 1, *claim, lease_ms)
            return known or None

    def done(self, claim: ProcessingMark, kept_ms: int) -> None:
        with self._answering():
            self._client.set(claim.key, DONE, px=kept_ms)

    def give_up(self, claim: ProcessingMark) -> None:
        with self._answering():
            self._client.eval(DROP, 1, *claim)

    def close(self) -> None:
        self._client.close()


def _library() -> Any:
    """The library, which is only there with the extra."""
    try:
        import redis
    except ImportError:
        raise InvalidArgument("claims in Redis need a library: pip install 'leveret[redis]'") from None
    return redis
