"""Wrong passwords, counted by all nodes together."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from leveret.runtime.shared.limits import SharedFailures
from leveret.runtime.shared.redis import Redis
from leveret.security.logins import DELAYS_MS, FORGOTTEN_MS, FREE_MAX
from tests.redis_process import RedisProcess

NOW_MS = 1_000_000
T = TypeVar("T")


def together(redis_server: RedisProcess, scene: Callable[[SharedFailures, SharedFailures, Redis], T]) -> T:
    """Play a scene of two nodes in a thread, as logins are decided."""

    async def played() -> T:
        redis = Redis(redis_server.url, cluster="test")
        await redis.probe()
        try:
            return await asyncio.to_thread(scene, SharedFailures("name", redis), SharedFailures("name", redis), redis)
        finally:
            await redis.close()

    return asyncio.run(played())


def test_failures_elsewhere_hold_the_next_one_back(redis_server: RedisProcess) -> None:
    def scene(here: SharedFailures, there: SharedFailures, redis: Redis) -> list[int]:
        for each in (here, there, here):
            assert each.count("mallory", NOW_MS) == 0
        return [each.count("mallory", NOW_MS) for each in (there, here, there, here)]

    assert together(redis_server, scene) == [*DELAYS_MS, DELAYS_MS[-1]]
    (key,) = [key for key in redis_server.key_names if "login" in key]
    assert "mallory" not in key
    assert 0 < redis_server.command("PTTL", key) <= FORGOTTEN_MS


def test_who_succeeds_starts_anew_on_other_nodes(redis_server: RedisProcess) -> None:
    def scene(here: SharedFailures, there: SharedFailures, redis: Redis) -> int:
        for _ in range(3):
            here.count("bob", NOW_MS)
        here.forget("bob")
        redis.run_in_thread("login", "return 1", "anything")  # asked after the other: by then it is done
        return there.add("bob", NOW_MS)

    assert together(redis_server, scene) == 1


def test_without_redis_each_node_counts_for_itself(redis_server: RedisProcess) -> None:
    def scene(here: SharedFailures, there: SharedFailures, redis: Redis) -> list[int]:
        here.add("mallory", NOW_MS)
        redis.up = False
        return [each.add("mallory", NOW_MS) for each in (here, there)]

    assert together(redis_server, scene) == [2, 1]


def test_a_key_of_another_type_is_counted_here(redis_server: RedisProcess) -> None:
    def scene(here: SharedFailures, there: SharedFailures, redis: Redis) -> list[int]:
        redis.run_in_thread("login", "return redis.call('LPUSH', KEYS[1], 'x')", here._key("mallory"))
        return [here.add("mallory", NOW_MS) for _ in range(2)]

    assert together(redis_server, scene) == [1, 2]


def test_a_node_knows_from_the_first_failure_on_what_others_have_counted(redis_server: RedisProcess) -> None:
    def scene(here: SharedFailures, there: SharedFailures, redis: Redis) -> list[bool]:
        for _ in range(FREE_MAX):
            here.add("mallory", NOW_MS)
        known = [there.exceeded("mallory", NOW_MS)]
        there.add("mallory", NOW_MS)
        return [*known, there.exceeded("mallory", NOW_MS)]

    assert together(redis_server, scene) == [False, True]
