"""What tests of shared knowledge need: a Redis, which the tests of one process share, and one that may be killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis_process import RedisProcess, be_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture(scope="session")
def running_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    """A Redis that no test may hurt."""
    with RedisProcess(tmp_path_factory.mktemp("redis")) as process:
        yield process


@pytest.fixture
def redis_server(running_redis: RedisProcess) -> RedisProcess:
    """The same with nothing in it."""
    running_redis.command("FLUSHALL")
    return running_redis


@pytest.fixture
def mortal_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    """One that a test may kill."""
    with RedisProcess(tmp_path, password="open sesame") as process:
        yield process
