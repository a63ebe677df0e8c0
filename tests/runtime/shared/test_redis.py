"""Redis that answers, and Redis that does not: nobody waits for it, and it comes back by itself."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from leveret.core.errors import InvalidArgument
from leveret.runtime.shared.keys import check_redis_url, shown_redis_url
from leveret.runtime.shared.redis import QUESTIONS_MAX, Redis
from leveret.server.settings import server_options
from tests.cluster.coordination.etcd_process import free_ports
from tests.redis_process import RedisProcess
from tests.server.certificates import Authority
from tests.waiting import PATIENCE_S

ECHO = "redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]"


@asynccontextmanager
async def asked(url: str, password: str = "") -> AsyncIterator[Redis]:
    """Redis as a server has it, probed once."""
    redis = Redis(url, password, "test")
    try:
        await redis.probe()
        yield redis
    finally:
        await redis.close()


def test_a_script_answers_about_each_of_many_keys(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with asked(redis_server.url) as redis:
            assert await redis.run("answer", ECHO, "one", "a") == b"a"
            assert await redis.run_many("answer", ECHO, [(str(key), key) for key in range(3)]) == [b"0", b"1", b"2"]
            assert await redis.run_many("answer", ECHO, []) == []
            many = [redis.run_many("answer", ECHO, [("x", key), ("y", -key)]) for key in range(2 * QUESTIONS_MAX)]
            assert await asyncio.gather(*many) == [[b"%d" % key, b"%d" % -key] for key in range(2 * QUESTIONS_MAX)]
            assert (redis.up, redis.errors, redis.fallbacks.total()) == (True, 0, 0)
            assert (redis.connections, redis.reconnects) == ((1, 0), 0)
            assert redis.waits == 2 * QUESTIONS_MAX - 1  # all but the first of those that were asked together

    asyncio.run(scene())
    assert "leveret/test/one" in redis_server.key_names


def test_one_who_waits_no_more_has_no_share_in_the_answers_of_others(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with asked(redis_server.url) as redis:
            asking = [asyncio.create_task(redis.run("answer", ECHO, "a", number)) for number in range(3)]
            await asyncio.sleep(0)
            asking[1].cancel()
            found = await asyncio.gather(*asking, return_exceptions=True)
            assert (found[0], found[2]) == (b"0", b"2")

    asyncio.run(scene())


def test_a_key_of_another_type_concerns_nobody_else(redis_server: RedisProcess) -> None:
    redis_server.command("LPUSH", "leveret/test/list", "x")

    async def scene() -> None:
        async with asked(redis_server.url) as redis:
            script = "return redis.call('INCR', KEYS[1])"
            assert await redis.run_many("login", script, [("list",), ("number",)]) == [None, 1]
            assert (redis.up, redis.errors, redis.fallbacks["login"]) == (True, 1, 1)

    asyncio.run(scene())
    assert redis_server.command("LLEN", "leveret/test/list") == 1


def test_a_redis_that_is_killed_and_started_again_comes_back(
    mortal_redis: RedisProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leveret")

    async def scene() -> None:
        async with asked(mortal_redis.url) as redis:
            mortal_redis.kill()
            assert await redis.run("answer", ECHO, "a", "x") is None
            for _ in range(3):
                await redis.probe()
                assert await redis.run("answer", ECHO, "a", "x") is None
            assert not redis.up
            assert redis.trouble is not None
            mortal_redis.start()
            await redis.probe()
            assert await redis.run("answer", ECHO, "a", "x") == b"x"
            assert redis.reconnects == 1

    asyncio.run(scene())
    assert [record.message for record in caplog.records].count("redis answers") == 2
    assert "open sesame" not in caplog.text + str([vars(record) for record in caplog.records])


def test_one_that_hangs_is_asked_once_and_then_left_alone(
    mortal_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with asked(mortal_redis.url) as redis:
            mortal_redis.signal(signal.SIGSTOP)
            monkeypatch.setattr("leveret.runtime.shared.redis.TIMEOUT_S", 0.1)
            many = [redis.run("answer", ECHO, str(key), "x") for key in range(2 * QUESTIONS_MAX)]
            assert set(await asyncio.gather(*many)) == {None}
            assert redis.errors == 1
            assert redis.fallbacks["answer"] == len(many)
            mortal_redis.signal(signal.SIGCONT)
            monkeypatch.setattr("leveret.runtime.shared.redis.TIMEOUT_S", PATIENCE_S)
            await redis.probe()
            assert await redis.run("answer", ECHO, "a", "x") == b"x"

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("hurt", "cure"),
    [
        (("REPLICAOF", "127.0.0.1", 1), ("REPLICAOF", "NO", "ONE")),
        (("CONFIG", "SET", "maxmemory", 1), ("CONFIG", "SET", "maxmemory", 0)),
    ],
    ids=["it only reads after a failover", "it is full"],
)
def test_one_that_takes_no_writes_is_away_until_it_does(
    redis_server: RedisProcess, hurt: tuple[str | int, ...], cure: tuple[str | int, ...]
) -> None:
    async def scene() -> None:
        async with asked(redis_server.url) as redis:
            redis_server.command(*hurt)
            try:
                await redis.probe()
                assert not redis.up
            finally:
                redis_server.command(*cure)
            await redis.probe()
            assert redis.up

    asyncio.run(scene())


def test_the_password_is_in_the_url_or_beside_it(mortal_redis: RedisProcess) -> None:
    bare = mortal_redis.url.replace(":open sesame@", "")

    async def up(url: str, password: str = "") -> bool:
        async with asked(url, password) as redis:
            return redis.up

    assert asyncio.run(up(mortal_redis.url))
    assert asyncio.run(up(bare, "open sesame"))
    assert not asyncio.run(up(bare, "open barley"))
    assert not asyncio.run(up(bare))


def test_tls_with_a_certificate_that_is_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("127.0.0.1")
    (port,) = free_ports(1)
    files = (
        "--tls-cert-file",
        str(own.cert),
        "--tls-key-file",
        str(own.key),
        "--tls-ca-cert-file",
        str(authority.cert),
    )
    secure = f"rediss://127.0.0.1:{port}/0"

    async def up(url: str) -> bool:
        async with asked(url) as redis:
            return redis.up

    with RedisProcess(tmp_path, "--tls-port", str(port), "--tls-auth-clients", "no", *files):
        assert asyncio.run(up(f"{secure}?ssl_ca_certs={authority.cert}"))
        assert not asyncio.run(up(secure))
        other_name = secure.replace("127.0.0.1", "localhost")
        assert not asyncio.run(up(f"{other_name}?ssl_ca_certs={authority.cert}"))


def test_a_thread_may_ask_too(redis_server: RedisProcess) -> None:
    async def scene() -> None:
        async with asked(redis_server.url) as redis:
            assert await asyncio.to_thread(redis.run_in_thread, "login", ECHO, "a", "x") == b"x"
            redis.up = False
            assert await asyncio.to_thread(redis.run_in_thread, "login", ECHO, "a", "x") is None
            assert redis.fallbacks["login"] == 1

    asyncio.run(scene())


@pytest.mark.parametrize("url", ["", "http://h", "redis://", "redis://h:0", "redis://h:x", "redis://:hush@h/one"])
def test_what_is_no_url_of_redis_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidArgument, match="redis://host:6379/0") as refusal:
        check_redis_url(url)
    assert "hush" not in str(refusal.value)
    if url:
        with pytest.raises(InvalidArgument, match="redis://host:6379/0"):
            server_options({"redis": url}, {})


@pytest.mark.parametrize(
    "query", ["ssl_cert_reqs=none", "ssl_cert_reqs=OPTIONAL", "ssl_check_hostname=false", "a=1&ssl_check_hostname=0"]
)
def test_a_url_may_not_turn_off_the_check_of_certificates(query: str) -> None:
    with pytest.raises(InvalidArgument, match="ssl_ca_certs"):
        check_redis_url(f"rediss://h?{query}")
    with pytest.raises(InvalidArgument, match="ssl_ca_certs"):
        server_options({"redis": f"rediss://h?{query}"}, {})


@pytest.mark.parametrize("query", ["", "?ssl_cert_reqs=required&ssl_check_hostname=true", "?ssl_ca_certs=/a"])
def test_a_url_may_say_how_certificates_are_checked(query: str) -> None:
    assert check_redis_url(f"rediss://h{query}")


@pytest.mark.parametrize("query", ["nonsense=1", "socket_timeout=soon"])
def test_what_its_query_may_not_say_is_refused_at_once(query: str) -> None:
    async def made() -> None:
        Redis(f"redis://:hush@h/0?{query}")

    with pytest.raises(InvalidArgument, match="in its query") as refusal:
        asyncio.run(made())
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:hush@h:1/2?socket_timeout=1", "redis://h:1/2"),
        ("rediss://me:hush@[::1]", "rediss://[::1]"),
        ("redis://h", "redis://h"),
    ],
)
def test_a_url_is_logged_without_secrets(url: str, shown: str) -> None:
    assert shown_redis_url(check_redis_url(url)) == shown
