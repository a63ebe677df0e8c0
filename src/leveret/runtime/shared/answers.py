"""Answers to requests with an Idempotency-Key, so that a repeated request has the same one: in Redis, and here.

    in flight   ?  digest of the body (32)  token of the attempt (16)               for CLAIM_MS at most
    answered    =  digest of the body (32)  status, type and headers as JSON, LF, body     for KEPT_MS

A node looks into its own memory first, which knows what it has answered itself when Redis is away. The whole is a
cache: it may forget, and then a request is done again. What queues know about keys is exact and lasts: they need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.clock import Clock
from leveret.runtime.shared.keys import ANSWER
from leveret.runtime.shared.memory import ExpiringMemory
from leveret.runtime.shared.scripts import CLAIM, DROP, KEEP

if TYPE_CHECKING:
    from leveret.runtime.shared.redis import Redis

CLAIM_MS = 60_000  # the longest poll is over by then; a node that fails does not block a key for longer
KEPT_MS = 600_000
ENTRIES_MAX = 10_000
BYTES_MAX = 16 << 20


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
