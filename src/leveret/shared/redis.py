"""Redis, as long as it answers: whoever asks has an answer in time, or None and decides alone.

    up      scripts are run, each in TIMEOUT_S; the first without an answer ends that
    away    nobody asks; every PROBE_EVERY_S a probe does, and when it may write everybody asks again

The probe also goes while Redis is up: a server that only reads (after a failover), that is full or that forbids writing
answers every script with an error, and is away as well. An error of one script alone concerns its key alone.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis as Client
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from leveret.shared.keys import PROBE, Use, space
from leveret.shared.redis_url import check_redis_url, shown_redis_url
from leveret.telemetry.logs import Log

TIMEOUT_S = 0.1
PROBE_EVERY_S = 1.0
PROBE_TIMEOUT_S = 1.0  # it may have to make a connection first, with TLS
PROBE_KEPT_S = 60
THREAD_TIMEOUT_S = 2 * TIMEOUT_S  # one in a thread waits for the loop as well
CONNECTIONS_MAX = 8

Call = tuple[str, *tuple[str | bytes | float, ...]]
"""The key of a script, and its arguments."""

LOG = Log("redis")


class Redis:
    """The Redis of a cluster, for the running loop; scripts give something other than nil."""

    def __init__(self, url: str, password: str = "", cluster: str | None = None) -> None:
        """Nothing is asked yet: see probe and watch."""
        # Retries would be waited for: here another way is at hand.
        retry = Retry(NoBackoff(), 0)
        self._client = Client.from_url(check_redis_url(url), password=password or None, retry=retry, protocol=2)
        self._space = space(cluster)
        self._shown = shown_redis_url(url)
        self._loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(CONNECTIONS_MAX)
        self.up = False
        self.trouble: str | None = None
        """Why it is away."""
        self.errors = 0
        self.fallbacks: Counter[Use] = Counter()
        """What was decided without it, by what it was about."""

    async def watch(self) -> None:
        """Look after it for as long as the server runs."""
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            await self.probe()

    async def probe(self) -> None:
        """Find out whether it may be asked."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await self._client.set(self._space + PROBE, "1", ex=PROBE_KEPT_S)
        except (RedisError, OSError) as error:
            self._lose(error)
            # Whoever is at the other end may not be the one to write to any more.
            await self._client.connection_pool.disconnect(inuse_connections=False)
        else:
            if not self.up:
                LOG.info("redis answers", redis=self._shown)
            self.up, self.trouble = True, None

    async def close(self) -> None:
        """Ask nothing more."""
        self.up = False
        await self._client.aclose()

    # Scripts

    async def run(self, use: Use, script: str, *call: *Call) -> Any:
        """What a script says about a key; None: there is no answer."""
        return (await self.run_many(use, script, [call]))[0]

    async def run_many(self, use: Use, script: str, calls: Sequence[Call]) -> list[Any]:
        """The same for several keys by one round trip."""
        answers: list[Any] = [None] * len(calls)
        if self.up:
            async with self._places:
                # Those who had to wait for a place do not wait for a timeout each.
                if self.up:
                    answers = await self._ask(script, calls) or answers
        self.fallbacks[use] += answers.count(None)
        return answers

    async def _ask(self, script: str, calls: Sequence[Call]) -> list[Any] | None:
        pipeline = self._client.pipeline(transaction=False)
        for key, *arguments in calls:
            pipeline.eval(script, 1, self._space + key, *arguments)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answers = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            self._lose(error)
            return None
        wrong = [each for each in answers if isinstance(each, Exception)]
        if wrong:
            self.errors += len(wrong)
            LOG.debug("redis refused", reason=wrong[0])
        return [None if isinstance(each, Exception) else each for each in answers]

    def run_in_thread(self, use: Use, script: str, *call: *Call) -> Any:
        """The same as run, for a thread that is not that of the loop."""
        if not self.up:
            self.fallbacks[use] += 1
            return None
        asked = asyncio.run_coroutine_threadsafe(self.run(use, script, *call), self._loop)
        try:
            return asked.result(THREAD_TIMEOUT_S)
        except TimeoutError:
            asked.cancel()
            self.fallbacks[use] += 1
            return None

    def run_soon(self, use: Use, script: str, *call: *Call) -> None:
        """The same, for one who does not wait for the answer."""
        if self.up:
            asyncio.run_coroutine_threadsafe(self.run(use, script, *call), self._loop)

    def _lose(self, error: Exception) -> None:
        """It does not answer: say so once."""
        self.errors += 1
        trouble = f"{type(error).__name__}: {error}"
        if trouble != self.trouble:
            advice = "limits, failed logins and answers are those of this node alone meanwhile"
            LOG.warning("redis does not answer", redis=self._shown, reason=trouble, advice=advice)
        self.up, self.trouble = False, trouble
