"""Answers to requests with an Idempotency-Key, so that a repeated request has the same one: in Redis, and here.

    in flight   ?  digest of the body (32)  token of the attempt (16)               for CLAIM_S at most
    answered    =  digest of the body (32)  status, type and headers as JSON, LF, body     for KEPT_S

A node looks into its own memory first, which knows what it has answered itself when Redis is away. The whole is a
cache: it may forget, and then a request is done again. What queues know about keys is exact and lasts: they need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.clock import Clock
from leveret.shared.keys import ANSWER

if TYPE_CHECKING:
    from leveret.shared.redis import Redis

CLAIM_S = 60  # the longest poll is over by then; a node that fails does not block a key for longer
KEPT_S = 600
ENTRIES_MAX = 10_000
BYTES_MAX = 16 << 20

CLAIM = """
local known = redis.call('GET', KEYS[1])
if known then return known end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''
"""
KEEP = """
local known = redis.call('GET', KEYS[1])
if known and known ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
DROP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class Memory:
    """What one node remembers: bounded, the oldest goes first."""

    def __init__(self, clock: Clock, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX) -> None:
        """Remember nothing yet."""
        self._clock = clock
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries: dict[str, tuple[bytes, int]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """How many requests are remembered."""
        return len(self._entries)

    def get(self, name: str) -> bytes | None:
        """What is known of a request."""
        value, until_ms = self._entries.get(name, (None, 0))
        return value if until_ms > self._clock.now_ms() else None

    def put(self, name: str, value: bytes, kept_s: int) -> None:
        """Remember something for a while, and forget what there is no room for."""
        self.drop(name)
        self._entries[name] = (value, self._clock.now_ms() + kept_s * 1000)
        self._bytes += len(value)
        while len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            self.drop(next(iter(self._entries)))

    def drop(self, name: str) -> None:
        """Forget a request."""
        value, _ = self._entries.pop(name, (b"", 0))
        self._bytes -= len(value)


class Answers:
    """What became of requests, by their names; for the loop."""

    def __init__(self, clock: Clock, redis: Redis | None = None) -> None:
        """Without Redis, of this node alone."""
        self._memory = Memory(clock)
        self._redis = redis

    async def claim(self, name: str, mark: bytes) -> bytes | None:
        """Begin with a request and give None, or what is known of it by now."""
        known = self._memory.get(name)
        if known is not None:
            return known
        self._memory.put(name, mark, CLAIM_S)
        known = await self._run(CLAIM, name, mark, CLAIM_S * 1000)
        if known:
            self._memory.drop(name)
        return known or None

    async def keep(self, name: str, mark: bytes, answer: bytes) -> None:
        """Remember the answer of a request that was begun with a mark."""
        self._memory.put(name, answer, KEPT_S)
        await self._run(KEEP, name, mark, answer, KEPT_S * 1000)

    async def drop(self, name: str, mark: bytes) -> None:
        """Forget a request that was begun: it may be tried again."""
        self._memory.drop(name)
        await self._run(DROP, name, mark)

    async def _run(self, script: str, name: str, *arguments: bytes | int) -> bytes | None:
        """What Redis says, if there is one that answers."""
        if self._redis is None:
            return None
        answer = await self._redis.run("answer", script, ANSWER + name, *arguments)
        return answer if isinstance(answer, bytes) else None
