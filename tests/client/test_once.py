"""Work that is done once, however often its message comes: in memory, in Redis, by threads and by tasks."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import leveret
from leveret.client import once as once_module
from leveret.client.once import ProcessingMark, RedisClaims, Work
from leveret.runtime.shared.answers import ExpiringMemory
from tests.redis_process import RedisProcess
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    with RedisProcess(tmp_path_factory.mktemp("redis")) as process:
        yield process


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Redis as long as tests do."""
    monkeypatch.setattr(once_module, "TIMEOUT_S", PATIENCE_S)


@pytest.fixture(params=["memory", "redis"])
def redis(request: pytest.FixtureRequest) -> str | None:
    """The URL of an empty Redis, or none."""
    if request.param == "memory":
        return None
    server: RedisProcess = request.getfixturevalue("redis_server")
    server.command("FLUSHALL")
    return server.url


@pytest.fixture
def once(redis: str | None) -> Iterator[leveret.Once]:
    with closing(leveret.Once("billing", redis)) as made:
        yield made


def test_a_message_that_was_worked_on_is_not_fresh_any_more(once: leveret.Once) -> None:
    for expected in (True, False, False):
        with once.claim("m1") as fresh:
            assert fresh is expected
    with once.claim("m2") as fresh:
        assert fresh


def test_work_that_failed_is_tried_again(once: leveret.Once) -> None:
    with pytest.raises(ZeroDivisionError), once.claim("m1"):
        raise ZeroDivisionError
    with once.claim("m1") as fresh:
        assert fresh


def test_what_another_works_on_is_neither_fresh_nor_done(once: leveret.Once) -> None:
    with once.claim("m1"), pytest.raises(leveret.ResourceLocked, match="give it back"), once.claim("m1"):
        pass
    with once.claim("m1") as fresh:
        assert not fresh


def test_one_of_many_threads_works(once: leveret.Once) -> None:
    start = threading.Barrier(8)

    def attempt(_: int) -> bool | None:
        start.wait(PATIENCE_S)
        try:
            with once.claim("m1") as fresh:
                return fresh
        except leveret.ResourceLocked:
            return None

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(attempt, range(8))).count(True) == 1


def test_names_do_the_work_each_once(redis: str | None, once: leveret.Once) -> None:
    with once.claim("m1"), closing(leveret.Once("mail", redis)) as other, other.claim("m1") as fresh:
        assert fresh


def test_messages_of_a_queue_are_known_by_their_ids(once: leveret.Once) -> None:
    with leveret.open() as broker:
        orders = broker.queue("orders")
        orders.send("a")
        seen = []
        for _ in range(2):
            (message,) = orders.receive()
            with once.claim(message) as fresh:
                seen.append(fresh)
            message.nack(delay=0)
        assert seen == [True, False]


def test_tasks_have_the_same(redis: str | None) -> None:
    async def scene() -> None:
        once = leveret.AsyncOnce("billing", redis)
        with pytest.raises(ZeroDivisionError):
            async with once.claim("m1"):
                raise ZeroDivisionError
        for expected in (True, False):
            async with once.claim("m1") as fresh:
                assert fresh is expected
        async with once.claim("m2"):
            with pytest.raises(leveret.ResourceLocked):
                async with once.claim("m2"):
                    pass
        await once.close()

    asyncio.run(scene())


def test_whoever_was_too_slow_does_not_give_up_what_another_has_begun() -> None:
    clock = leveret.ManualClock()
    with closing(leveret.Once("billing", lease=60, clock=clock)) as once:
        slow = once.begin("m1")
        assert slow is not None
        clock.advance(60)
        assert once.begin("m1") is not None
        once.give_up(slow)
        with pytest.raises(leveret.ResourceLocked):
            once.begin("m1")


def test_whoever_crashed_has_a_claim_for_its_lease_only() -> None:
    clock = leveret.ManualClock()
    with closing(leveret.Once("billing", lease=60, keep=600, clock=clock)) as once:
        assert once.begin("m1") is not None
        clock.advance(60)
        with once.claim("m1") as fresh:
            assert fresh
        clock.advance(599)
        with once.claim("m1") as fresh:
            assert not fresh
        clock.advance(1)
        with once.claim("m1") as fresh:
            assert fresh


def test_claims_in_redis_end_by_themselves(redis_server: RedisProcess) -> None:
    redis_server.command("FLUSHALL")
    with closing(leveret.Once("billing", redis_server.url, lease=60, keep=600)) as once:
        with once.claim("m1"):
            assert 0 < redis_server.command("PTTL", "leveret/once/billing/m1") <= 60_000
        assert 60_000 < redis_server.command("PTTL", "leveret/once/billing/m1") <= 600_000


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Has one for each time that Redis was asked for a claim, or for more time with it."""
    asked, claim = threading.Semaphore(0), RedisClaims.claim

    def counted(claims: RedisClaims, key: str, mark: bytes, lease_ms: int) -> bytes | None:
        known = claim(claims, key, mark, lease_ms)
        asked.release()
        return known

    monkeypatch.setattr(RedisClaims, "claim", counted)
    return asked


def test_a_claim_is_extended_while_its_work_goes_on(redis_server: RedisProcess, extended: threading.Semaphore) -> None:
    redis_server.command("FLUSHALL")
    clock = leveret.ManualClock()
    with closing(leveret.Once("billing", redis_server.url, lease=600, clock=clock)) as once:
        with once.claim("m1"):
            assert extended.acquire(timeout=PATIENCE_S)
            for _ in range(3):
                redis_server.command("PEXPIRE", "leveret/once/billing/m1", 300_000)  # as if half of it were over
                clock.advance(300)
                assert extended.acquire(timeout=PATIENCE_S)
                assert redis_server.command("PTTL", "leveret/once/billing/m1") > 300_000
            with pytest.raises(leveret.ResourceLocked):
                once.begin("m1")
        assert once.begin("m1") is None


def test_claims_of_tasks_are_extended_as_well(redis_server: RedisProcess, extended: threading.Semaphore) -> None:
    redis_server.command("FLUSHALL")

    async def scene() -> None:
        once = leveret.AsyncOnce("billing", redis_server.url, lease=1)
        async with once.claim("m1"):
            for _ in range(1 + 1):
                assert await asyncio.to_thread(extended.acquire, timeout=PATIENCE_S)
        await once.close()

    asyncio.run(scene())


def test_work_that_hangs_keeps_its_claim_no_longer_than_it_may() -> None:
    clock = leveret.ManualClock()
    claims = ExpiringMemory(clock, 10, 1_000)
    claim, other = ProcessingMark("m1", b"one"), ProcessingMark("m1", b"two")
    claims.claim(*claim, 60_000)
    work = Work(claims, claim, clock, clock.now_ms() + 100_000)
    clock.advance(50)
    work.extend(60)
    clock.advance(50)
    assert claims.claim(*other, 60_000) == b"one"
    with pytest.raises(leveret.ResourceLocked, match="too long"):
        work.extend(60)
    clock.advance(10)
    assert claims.claim(*other, 60_000) is None
    with pytest.raises(leveret.ResourceLocked):
        Work(claims, claim, clock, clock.now_ms() + 1).extend(60)


def test_a_claim_that_was_given_up_is_not_extended_by_a_thread_that_comes_late() -> None:
    clock = leveret.ManualClock()
    claims, claim = ExpiringMemory(clock, 10, 1_000), ProcessingMark("m1", b"one")
    claims.claim(*claim, 60_000)
    work = Work(claims, claim, clock, clock.now_ms() + 100_000)
    work.end()
    claims.drop(*claim)
    work.extend(60)
    assert claims.claim("m1", b"two", 60_000) is None


def test_work_that_took_longer_than_its_lease_is_done_all_the_same(redis_server: RedisProcess) -> None:
    redis_server.command("FLUSHALL")
    with closing(leveret.Once("billing", redis_server.url)) as once:
        slow = once.begin("m1")
        assert slow is not None
        redis_server.command("DEL", "leveret/once/billing/m1")
        other = once.begin("m1")
        assert other is not None
        once.give_up(slow)  # not his any more
        with pytest.raises(leveret.ResourceLocked):
            once.begin("m1")
        once.done(slow)
        assert once.begin("m1") is None


def test_without_its_redis_nothing_is_claimed() -> None:
    with closing(leveret.Once("billing", "redis://:hush@127.0.0.1:1/0")) as once:
        with pytest.raises(leveret.Unreachable, match="does not answer") as refusal, once.claim("m1"):
            pytest.fail("nobody knows whether this was done")
        assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("name", ["", "n" * 1025], ids=["empty", "long"])
def test_names_and_ids_have_a_length(name: str) -> None:
    with pytest.raises(leveret.InvalidArgument, match="1 to 1024"):
        leveret.Once(name)
    with pytest.raises(leveret.InvalidArgument, match="1 to 1024"), leveret.Once("billing").claim(name):
        pass


@pytest.mark.parametrize("options", [{"lease": 0}, {"longest": 0}, {"keep": 0}], ids=str)
def test_a_lease_is_a_time(options: dict[str, float]) -> None:
    with pytest.raises(leveret.InvalidArgument, match="above 0"):
        leveret.Once("billing", **options)  # type: ignore[arg-type]
