"""Limits that all nodes keep together: on requests, and on wrong passwords and tokens.

No request waits for Redis. Each node has a bucket of its own and decides by it. What it gave out is reported soon:
REPORT_S after the first of it, or at once when that is a BATCH_SHARE of the burst. Redis takes it out of the bucket of
all and says what is left there, by its own clock; that is the bucket of the node from then on. What several nodes gave
out too much meanwhile is a debt in the bucket of all, so on average the rate is kept: over any time all nodes together
let through at most

    burst + rate * time + (nodes - 1) * (burst / 20 + what came while a report was on its way)

While Redis is away each node keeps the limit alone: that is the same with nodes * burst and nodes * rate.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from leveret.clock import Clock
from leveret.core.errors import InvalidArgument
from leveret.runtime.shared.keys import LOGIN, RATE, hashed
from leveret.security.logins import FORGOTTEN_MS, Failures

if TYPE_CHECKING:
    from leveret.runtime.shared.redis import Redis

KEYS_MAX = 100_000  # buckets in memory: strangers choose the addresses that they come from
REPORT_S = 0.02
BATCH_SHARE = 1 / 20
REPORT_KEYS_MAX = 1_000  # in one round trip: Redis serves no other client meanwhile

# The debt has an end: whatever was written into a key, no client is shut out for ever.
TAKE = """
local per_ms, burst, used = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = redis.call('HMGET', KEYS[1], 'level', 'at_ms')
local level, at_ms = tonumber(kept[1]) or burst, tonumber(kept[2]) or now_ms
level = math.min(burst, level + math.max(0, now_ms - at_ms) * per_ms)
level = math.max(level - used, -100 * burst)
redis.call('HSET', KEYS[1], 'level', level, 'at_ms', now_ms)
redis.call('PEXPIRE', KEYS[1], math.ceil((burst - level) / per_ms) + 1000)
return tostring(level)
"""
COUNT = """
local count = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return count
"""
FORGET = "return redis.call('DEL', KEYS[1])"


class RateLimit:
    """At most `rate_per_s` on average, and `burst` at once: a bucket of tokens for each key, for all threads."""

    def __init__(self, rate_per_s: float, burst: int, keys_max: int = KEYS_MAX) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise InvalidArgument("a rate limit needs a rate above 0 and a burst of at least 1")
        self._per_ms = rate_per_s / 1000
        self._burst = float(burst)
        self._keys_max = keys_max
        self._buckets: dict[str, tuple[float, int]] = {}
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str, now_ms: int, cost: int = 1) -> int:
        """Take tokens and give 0; when there are too few, take none and give the milliseconds until there are."""
        with self._mutex:
            level, at_ms = self._buckets.pop(key, (self._burst, now_ms))
            # A clock that goes back gives nothing, and a cost over the burst is asked for when the bucket is full.
            level = min(self._burst, level + max(0, now_ms - at_ms) * self._per_ms)
            missing = min(cost, self._burst) - level
            self._buckets[key] = (level if missing > 0 else level - cost, now_ms)
            if len(self._buckets) > self._keys_max:
                # Put in again at each use, the first one is the one that was idle longest: it is the fullest.
                del self._buckets[next(iter(self._buckets))]
        return 0 if missing <= 0 else max(1, round(missing / self._per_ms))

    def learn(self, key: str, level: float, now_ms: int) -> None:
        """Have so many tokens in a bucket, as told by a more exact count; one that is not kept stays full."""
        with self._mutex:
            if key in self._buckets:
                self._buckets[key] = (min(level, self._burst), now_ms)


class SharedRateLimit(RateLimit):
    """A rate limit in one loop of one node."""

    def __init__(self, rate_per_s: float, burst: int, redis: Redis, clock: Clock) -> None:
        super().__init__(rate_per_s, burst)
        self._redis = redis
        self._clock = clock
        self._batch = burst * BATCH_SHARE
        self._used: dict[str, int] = {}
        self._some = asyncio.Event()
        self._many = asyncio.Event()

    def take(self, key: str, now_ms: int, cost: int = 1) -> int:
        wait_ms = super().take(key, now_ms, cost)
        if not wait_ms:
            used = self._used[key] = self._used.get(key, 0) + cost
            self._some.set()
            if used >= self._batch:
                self._many.set()
        return wait_ms

    async def run(self) -> None:
        """Report what is given out, for as long as the server runs."""
        while True:
            await self._some.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_S):
                    await self._many.wait()
            await self.report()

    async def report(self) -> None:
        """Report what was given out, and learn what is left. What happens while Redis is away is never reported."""
        reported = dict(islice(self._used.items(), REPORT_KEYS_MAX))
        for key in reported:
            del self._used[key]
        if not self._used:
            self._some.clear()
            self._many.clear()
        calls = [(RATE + key, self._per_ms, self._burst, used) for key, used in reported.items()]
        levels = await self._redis.run_many("rate_limit", TAKE, calls)
        now_ms = self._clock.now_ms()
        for key, level in zip(reported, levels, strict=True):
            if level is not None:
                self.learn(key, float(level) - self._used.get(key, 0), now_ms)


class SharedFailures(Failures):
    """Failures of one kind (by name, by address), counted here and by Redis; for threads that are not the loop's."""

    def __init__(self, kind: str, redis: Redis) -> None:
        super().__init__()
        self._kind = kind
        self._redis = redis

    def add(self, key: str, now_ms: int) -> int:
        """See Failures; the larger of both counts, so that no attacker gains by an outage."""
        here = super().add(key, now_ms)
        everywhere = self._redis.run_in_thread("login", COUNT, self._key(key), FORGOTTEN_MS) or 0
        if everywhere > here:
            self.learn(key, everywhere, now_ms)
        return max(here, everywhere)

    def forget(self, key: str) -> None:
        """See Failures; a right password is not held back."""
        super().forget(key)
        self._redis.run_soon("login", FORGET, self._key(key))

    def _key(self, key: str) -> str:
        return LOGIN + hashed(self._kind.encode(), key.encode())
