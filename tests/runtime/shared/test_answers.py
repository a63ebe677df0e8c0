"""Answers that nodes remember for each other, and what each has in its own memory."""

import asyncio
from collections.abc import Awaitable, Callable

import leveret
from leveret.runtime.shared.answers import CLAIM_MS, KEPT_MS, Answers
from leveret.runtime.shared.redis import Redis
from tests.redis_process import RedisProcess

Scene = Callable[[Answers, Answers, Redis], Awaitable[None]]


def together(redis_server: RedisProcess, scene: Scene) -> None:
    """Play a scene of two nodes."""

    async def played() -> None:
        redis = Redis(redis_server.url, cluster="test")
        await redis.probe()
        try:
            await scene(Answers(leveret.ManualClock(), redis), Answers(leveret.ManualClock(), redis), redis)
        finally:
            await redis.close()

    asyncio.run(played())


def test_what_one_node_has_begun_or_answered_the_other_knows(redis_server: RedisProcess) -> None:
    async def scene(here: Answers, there: Answers, redis: Redis) -> None:
        assert await here.claim("a", b"?mark") is None
        assert await there.claim("a", b"?other") == b"?mark"
        assert 0 < redis_server.command("PTTL", "leveret/test/answer/a") <= CLAIM_MS
        await here.keep("a", b"?mark", b"=answer")
        assert await there.claim("a", b"?other") == b"=answer"
        assert CLAIM_MS < redis_server.command("PTTL", "leveret/test/answer/a") <= KEPT_MS

    together(redis_server, scene)


def test_one_of_many_at_the_same_time_begins(redis_server: RedisProcess) -> None:
    async def scene(here: Answers, there: Answers, redis: Redis) -> None:
        marks = [b"?%d" % number for number in range(40)]
        nodes = [Answers(leveret.ManualClock(), redis) for _ in marks]
        found = await asyncio.gather(*(node.claim("a", mark) for node, mark in zip(nodes, marks, strict=True)))
        assert found.count(None) == 1
        assert set(found) - {None} == {marks[found.index(None)]}

    together(redis_server, scene)


def test_what_was_dropped_may_be_tried_anywhere(redis_server: RedisProcess) -> None:
    async def scene(here: Answers, there: Answers, redis: Redis) -> None:
        await here.claim("a", b"?mark")
        await here.drop("a", b"?mark")
        assert await there.claim("a", b"?other") is None
        # Whoever was too slow neither drops nor replaces what another has begun meanwhile.
        await here.drop("a", b"?mark")
        await here.keep("a", b"?mark", b"=answer")
        assert redis_server.command("GET", "leveret/test/answer/a") == b"?other"

    together(redis_server, scene)


def test_an_answer_is_kept_though_its_claim_was_evicted(redis_server: RedisProcess) -> None:
    async def scene(here: Answers, there: Answers, redis: Redis) -> None:
        await here.claim("a", b"?mark")
        redis_server.command("DEL", "leveret/test/answer/a")
        await here.keep("a", b"?mark", b"=answer")
        assert await there.claim("a", b"?other") == b"=answer"

    together(redis_server, scene)


def test_a_node_knows_its_own_answers_while_redis_is_away(redis_server: RedisProcess) -> None:
    async def scene(here: Answers, there: Answers, redis: Redis) -> None:
        await here.claim("a", b"?mark")
        await here.keep("a", b"?mark", b"=answer")
        redis.up = False
        assert await here.claim("a", b"?again") == b"=answer"
        assert await there.claim("a", b"?other") is None
        assert redis.fallbacks["answer"] == 1

    together(redis_server, scene)


def test_a_key_of_another_type_is_remembered_here(redis_server: RedisProcess) -> None:
    redis_server.command("LPUSH", "leveret/test/answer/a", "x")

    async def scene(here: Answers, there: Answers, redis: Redis) -> None:
        assert await here.claim("a", b"?mark") is None
        await here.keep("a", b"?mark", b"=answer")
        assert await here.claim("a", b"?again") == b"=answer"
        assert redis.up

    together(redis_server, scene)
