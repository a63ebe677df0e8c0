"""One limit that several nodes keep: together, and each for itself when Redis is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from leveret.clock import ManualClock
from leveret.runtime.shared.limits import TAKE, SharedRateLimit
from leveret.runtime.shared.redis import Redis
from tests.redis_process import RedisProcess
from tests.waiting import PATIENCE_S

RATE, BURST = 1, 20
SLOWLY = 0.001  # tokens a second: none comes back while a test runs


@asynccontextmanager
async def nodes(redis_server: RedisProcess, count: int, rate: float = SLOWLY) -> AsyncIterator[list[SharedRateLimit]]:
    """Several nodes with the same limit, each with a connection of its own."""
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(count):
            redis = Redis(redis_server.url, cluster="test")
            stack.push_async_callback(redis.close)
            await redis.probe()
            made.append(SharedRateLimit(rate, BURST, redis, ManualClock()))
        yield made


def passed(limit: SharedRateLimit, attempts: int) -> int:
    """How many of some requests a node lets through."""
    return [limit.take("user bob", ManualClock().now_ms()) for _ in range(attempts)].count(0)


def test_what_one_node_gave_out_is_missing_at_the_other(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with nodes(redis_server, 2) as (first, second):
            assert passed(first, 15) == 15
            await first.report()
            assert passed(second, 1) == 1
            await second.report()
            assert passed(second, 10) == BURST - 15 - 1
            assert passed(first, 10) == BURST - 15  # it has not heard of the other yet ...
            await asyncio.gather(first.report(), second.report())
            assert passed(first, 10) == passed(second, 10) == 0

    asyncio.run(scene())


def test_what_was_given_out_too_much_is_a_debt_of_all(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with nodes(redis_server, 3) as limits:
            assert [passed(limit, BURST) for limit in limits] == [BURST] * 3
            for limit in limits:
                await limit.report()
            (level,) = redis_server.command("HMGET", "leveret/test/rate/user bob", "level")
            assert round(float(level)) == -2 * BURST
            assert limits[2].take("user bob", ManualClock().now_ms()) > 2 * BURST / SLOWLY * 1000

    asyncio.run(scene())


def test_many_who_take_at_the_same_time_lose_nothing(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            clients = [Redis(redis_server.url, cluster="test") for _ in range(4)]
            for client in clients:
                stack.push_async_callback(client.close)
                await client.probe()
            calls = [client.run("rate_limit", TAKE, "rate/x", 1e-9, 1000.0, 1) for _ in range(50) for client in clients]
            left = sorted(round(float(level)) for level in await asyncio.gather(*calls))
            assert left == list(range(800, 1000))

    asyncio.run(scene())


def test_reports_go_out_by_themselves(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with nodes(redis_server, 2) as limits:
            running = [asyncio.create_task(limit.run()) for limit in limits]
            assert passed(limits[0], BURST) == BURST
            async with asyncio.timeout(PATIENCE_S):
                while passed(limits[1], 1):
                    await asyncio.sleep(0.01)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(scene())


def test_each_node_keeps_the_limit_alone_while_redis_is_away(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with nodes(redis_server, 2) as (first, second):
            first._redis.up = second._redis.up = False
            assert passed(first, 2 * BURST) == passed(second, 2 * BURST) == BURST
            await first.report()
            assert first._redis.fallbacks["rate_limit"] == 1
            assert passed(first, 1) == 0

    asyncio.run(scene())
    assert not [key for key in redis_server.key_names if "rate" in key]


def test_a_bucket_goes_when_it_would_be_full_and_a_full_one_takes_its_place(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with nodes(redis_server, 1, RATE) as (limit,):
            assert passed(limit, BURST) == BURST
            await limit.report()
            assert 0 < redis_server.command("PTTL", "leveret/test/rate/user bob") <= BURST / RATE * 1000 + 1000
            redis_server.command("DEL", "leveret/test/rate/user bob")
            limit.learn("user bob", 1, ManualClock().now_ms())
            assert passed(limit, 1) == 1
            await limit.report()
            assert passed(limit, BURST) == BURST - 1

    asyncio.run(scene())


@pytest.mark.parametrize("level", ["nan", "inf", "-inf", "1e308", "words"])
@pytest.mark.parametrize("at_ms", ["nan", "1e300", "-1e300", "words"])
def test_whatever_stands_in_a_bucket_it_comes_to_an_end(redis_server: RedisProcess, level: str, at_ms: str) -> None:
    async def scene() -> None:
        async with nodes(redis_server, 1, RATE) as (limit,):
            redis_server.command("HSET", "leveret/test/rate/user bob", "level", level, "at_ms", at_ms)
            assert passed(limit, 1) == 1
            await limit.report()
            assert limit.take("user bob", ManualClock().now_ms()) <= 101 * BURST / RATE * 1000
            assert 0 < redis_server.command("PTTL", "leveret/test/rate/user bob") <= 102 * BURST / RATE * 1000

    asyncio.run(scene())
