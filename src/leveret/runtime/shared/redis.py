"""Redis, as long as it answers: a caller has an answer in time, or None and decides alone.

    up      scripts are run by round trips of TIMEOUT_S at most, each for all who have asked since the last one began;
            the first without an answer ends that
    away    no caller asks; every PROBE_EVERY_S a probe does, and when it may write all callers ask again

The probe also goes while Redis is up: a server that only reads (after a failover), that is full or that forbids writing
answers every script with an error, and is away as well. An error of one script alone concerns its key alone.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from redis.asyncio import Redis as Client
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from leveret.core.errors import InvalidArgument
from leveret.observability.logs import Log
from leveret.runtime.shared.keys import PROBE, Use, check_redis_url, shown_redis_url, space

TIMEOUT_S = 0.1
PROBE_EVERY_S = 1.0
CONNECT_TIMEOUT_S = 1.0  # with TLS
PROBE_KEPT_S = 60
THREAD_TIMEOUT_S = 2 * TIMEOUT_S  # one in a thread waits for the loop as well
QUESTIONS_MAX = 100  # in one round trip: Redis serves no other client meanwhile

Call = tuple[str, *tuple[str | bytes | float, ...]]
"""The key of a script, and its arguments."""

LOG = Log("redis")


class RedisCall(NamedTuple):
    """A script for some keys, and who waits for its answers."""

    script: str
    calls: Sequence[Call]
    answers: asyncio.Future[list[Any]]

    def answer(self, answers: list[Any]) -> None:
        """Tell the caller, if it still waits; an empty list: Redis does not answer."""
        if not self.answers.done():
            self.answers.set_result(answers or [None] * len(self.calls))


class Redis:
    """The Redis of a cluster, for the running loop; scripts give something other than nil."""

    def __init__(self, url: str, password: str = "", cluster: str | None = None) -> None:
        """Nothing is asked yet: see probe and watch."""
        self._client = _client(check_redis_url(url), password)
        self._space = space(cluster)
        self._shown = shown_redis_url(url)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[RedisCall] = deque()
        self._trip: asyncio.Task[None] | None = None
        self.up = False
        self.trouble: str | None = None
        """Why it is away."""
        self.errors = 0
        self.reconnects = 0
        """Times that it answered again after it had been away."""
        self.waits = 0
        """Questions that waited for the round trip of others."""
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
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._client.exists(self._space + PROBE)
            async with asyncio.timeout(TIMEOUT_S):  # as scripts have: it must not come back only to go again
                await self._client.set(self._space + PROBE, "1", ex=PROBE_KEPT_S)
        except (RedisError, OSError) as error:
            self._lose(error)
            # The server at the other end may not be the one to write to any more.
            await self._client.connection_pool.disconnect(inuse_connections=False)
        else:
            if not self.up:
                LOG.info("redis answers", redis=self._shown)
            self.reconnects += self.trouble is not None
            self.up, self.trouble = True, None

    @property
    def connections(self) -> tuple[int, int]:
        """How many connections there are, and how many of them are in use."""
        pool = self._client.connection_pool
        in_use = len(pool._in_use_connections)  # no public name in all versions
        return len(pool._available_connections) + in_use, in_use

    async def close(self) -> None:
        self.up = False
        if self._trip is not None:
            await self._trip
        await self._client.aclose()

    # Scripts

    async def run(self, use: Use, script: str, *call: *Call) -> Any:
        """What a script says about a key; None: there is no answer."""
        return (await self.run_many(use, script, [call]))[0]

    async def run_many(self, use: Use, script: str, calls: Sequence[Call]) -> list[Any]:
        """The same for several keys."""
        answers = [None] * len(calls)
        if self.up and calls:
            question = RedisCall(script, calls, self._loop.create_future())
            self._waiting.append(question)
            self.waits += self._trip is not None
            if self._trip is None:
                self._trip = asyncio.create_task(self._travel())
            answers = await question.answers
        self.fallbacks[use] += answers.count(None)
        return answers

    async def _travel(self) -> None:
        """Make one round trip after the other: what comes during one goes with the next."""
        batch: list[RedisCall] = []
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), QUESTIONS_MAX))]
                answers = iter(await self._ask(batch) if self.up else ())
                for question in batch:
                    question.answer(list(islice(answers, len(question.calls))))
        finally:
            self._trip = None
            for question in (*batch, *self._waiting):
                question.answer([])
            self._waiting.clear()

    async def _ask(self, batch: list[RedisCall]) -> list[Any]:
        """The answers to some questions; or none at all."""
        pipeline = self._client.pipeline(transaction=False)
        for question in batch:
            for key, *arguments in question.calls:
                pipeline.eval(question.script, 1, self._space + key, *arguments)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answers = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            self._lose(error)
            return []
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
        """The same, for a caller that does not wait for the answer."""
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


def _client(url: str, password: str) -> Client:
    """The client of a URL; what it says in its query is checked now, and not when it is connected."""
    try:
        # Without retries: they would be waited for, and here another way is at hand.
        client = Client.from_url(url, password=password or None, retry=Retry(NoBackoff(), 0), protocol=2)
        client.connection_pool.connection_class(**client.connection_pool.connection_kwargs)
    except (TypeError, ValueError):
        raise InvalidArgument(
            "redis is a URL with a setting in its query that is unknown or wrong: correct it"
        ) from None
    return client
