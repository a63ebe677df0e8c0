"""What every test gets: checks that it leaves no thread behind and ends no process, and `need` for missing parts."""

import os
import secrets
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from pika.connection import Parameters

from tests.schedule import group, processes, turn
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from tests.cluster.coordination.etcd_process import EtcdProcess
    from tests.postgres_server import PostgresServer

IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
THREAD_END_S = 30.0
SPARK_S = 400.0
"""For a test with Spark: its first job may wait for Java on a busy machine, and an interrupted one spoils the next."""

# Clients of AMQP give up after 15 seconds otherwise.
Parameters.DEFAULT_SOCKET_TIMEOUT = Parameters.DEFAULT_STACK_TIMEOUT = PATIENCE_S

# A shared machine is slow now and then: the time of one example says nothing. CI must not fail by chance either.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if IN_CI else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests into the order of the schedule, and give those with Spark more time."""
    items.sort(key=lambda item: turn(item.nodeid))
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.timeout(SPARK_S))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """See tests/schedule.py."""
    return processes()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Hand out groups of tests in their order; marks for groups do nothing: pytest 9.2 lets no one rename tests."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False
    made = LoadScopeScheduling(config, log)
    made._split_scope = group
    return made


def need(condition: object, reason: str) -> None:
    """Skip the test when a part that it needs is missing; in CI, where nothing may be missing, fail."""
    if condition:
        return
    if IN_CI:
        pytest.fail(f"missing in CI: {reason}")
    pytest.skip(reason)


def left_behind(before: set[threading.Thread]) -> list[str]:
    """The names of threads that were started since and do not end; foreign threads are not ours to end."""
    started = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not isinstance(thread, threading._DummyThread)
    ]
    end = time.monotonic() + THREAD_END_S
    for thread in started:
        thread.join(max(0.0, end - time.monotonic()))
    return [thread.name for thread in started if thread.is_alive()]


@pytest.fixture(scope="session")
def endings() -> Iterator[list[int]]:
    """The codes that a broker whose journal failed would have ended this process with: nobody would hear why."""
    codes: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leveret.storage.journal.commit.os", SimpleNamespace(_exit=codes.append))
        yield codes
    assert not codes, f"a journal failed after the last test, and a process would have ended with {codes}"


@pytest.fixture(autouse=True)
def no_process_ended(endings: list[int]) -> Iterator[None]:
    """Fail a test in which a journal failed that nobody had made fail; what it said is in the captured errors."""
    yield
    codes = endings.copy()
    endings.clear()
    assert not codes, f"a journal failed, and a process would have ended with {codes}"


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """A PostgreSQL for all tests that need one; each has a schema of its own there."""
    from tests.postgres_server import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture
def store_url(postgres: "PostgresServer") -> str:
    """The URL of a store that is empty."""
    return postgres.new_url(f"store_{secrets.token_hex(8)}")


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[EtcdProcess]":
    """An etcd for all tests that need one; each has a prefix of its own there."""
    from tests.cluster.coordination.etcd_process import EtcdProcess

    with EtcdProcess(tmp_path_factory.mktemp("etcd")) as process:
        yield process


@pytest.fixture(autouse=True)
def no_thread_left_behind() -> Iterator[None]:
    """Fail a test that leaves a thread running: the next test would not start in a clean world."""
    before = set(threading.enumerate())
    yield
    left = left_behind(before)
    assert not left, f"threads left running, close what started them: {left}"
