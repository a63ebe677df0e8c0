"""Answers to requests with an Idempotency-Key, so that a repeated request has the same one: in Redis, and here.

    in flight   ?  digest of the body (32)  token of the attempt (16)               for CLAIM_MS at most
    answered    =  digest of the body (32)  status, type and headers as JSON, LF, body     for KEPT_MS

A node looks into its own memory first, which knows what it has answered itself when Redis is away. The whole is a
cache: it may forget, and then a request is done again. What queues know about keys is exact and lasts: they need none.

A key in Redis is set by `SET NX` with the owner's token; only that owner may extend or release it.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from leveret.clock import Clock
from leveret.runtime.shared.keys import ANSWER

if TYPE_CHECKING:
    from leveret.runtime.shared.redis import Redis

CLAIM_MS = 60_000  # the longest poll is over by then; a node that fails does not block a key for longer
KEPT_MS = 600_000
ENTRIES_MAX = 10_000
BYTES_MAX = 16 << 20

# Gives what is known of the key, or '' to its owner from now on, also when that asks again after a lost answer.
CLAIM = """
local known = redis.call('GET', KEYS[1])
if known and known ~= ARGV[1] then return known end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''
"""
# Not over the mark of another, who has begun anew since this one was given up or evicted.
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


class ExpiringMemory:
    """Values by their keys, kept for a while in this process: bounded, the oldest goes first; for all threads."""

    def __init__(self, clock: Clock, entries_max: int, bytes_max: int) -> None:
        self._clock = clock
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries: dict[str, tuple[bytes, int]] = {}
        self._bytes = 0
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def claim(self, key: str, mark: bytes, kept_ms: int) -> bytes | None:
        """What is known of a key; if that is nothing, or the mark itself, the mark is from now on."""
        with self._mutex:
            value, until_ms = self._entries.get(key, (None, 0))
            if value is not None and value != mark and until_ms > self._clock.now_ms():
                return value
            self._put(key, mark, kept_ms)
            return None

    def put(self, key: str, value: bytes, kept_ms: int) -> None:
        """Remember something, and forget what there is no room for."""
        with self._mutex:
            self._put(key, value, kept_ms)

    def drop(self, key: str, mark: bytes) -> None:
        """Forget a key that was claimed by a mark, unless it is another's by now."""
        with self._mutex:
            if self._entries.get(key, (None, 0))[0] == mark:
                self._drop(key)

    def _put(self, key: str, value: bytes, kept_ms: int) -> None:
        self._drop(key)
        self._entries[key] = (value, self._clock.now_ms() + kept_ms)
        self._bytes += len(value)
        while len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        value, _ = self._entries.pop(key, (b"", 0))
        self._bytes -= len(value)


class Answers:
    """What became of requests, by their names; for the loop."""

    def __init__(self, clock: Clock, redis: Redis | None = None) -> None:
        self._memory = ExpiringMemory(clock, ENTRIES_MAX, BYTES_MAX)
        self._redis = redis

    async def claim(self, name: str, mark: bytes) -> bytes | None:
        """Begin with a request and give None, or what is known of it by now."""
        known = self._memory.claim(name, mark, CLAIM_MS)
        if known is not None:
            return known
        known = await self._run(CLAIM, name, mark, CLAIM_MS)
        if known:
            self._memory.drop(name, mark)
        return known or None

    async def keep(self, name: str, mark: bytes, answer: bytes) -> None:
        """Remember the answer of a request that was begun with a mark."""
        self._memory.put(name, answer, KEPT_MS)
        await self._run(KEEP, name, mark, answer, KEPT_MS)

    async def drop(self, name: str, mark: bytes) -> None:
        """Forget a request that was begun: it may be tried again."""
        self._memory.drop(name, mark)
        await self._run(DROP, name, mark)

    async def _run(self, script: str, name: str, *arguments: bytes | int) -> bytes | None:
        """What Redis says, if there is one that answers."""
        if self._redis is None:
            return None
        answer = await self._redis.run("answer", script, ANSWER + name, *arguments)
        return answer if isinstance(answer, bytes) else None
