"""Which login attempts are decided when: fairly among addresses and users, in few threads."""

import asyncio
import threading
from collections import Counter

import pytest

from leveret.security import logins as logins_module
from leveret.security.logins import (
    FREE_MAX,
    RUNNING_MAX,
    THREADS_MAX,
    UNDECIDED_PER_ORIGIN_MAX,
    LoginAttempt,
    Logins,
    TooManyLogins,
)
from leveret.security.passwords import Cost
from leveret.security.users import Users
from tests.waiting import PATIENCE_S, wait_until

NOW_MS = 1_700_000_000_000
FLOOD = 60


class Scene:
    """Attempts that are held until they are let go."""

    def __init__(self) -> None:
        self.users = Users(Cost(2, 1, 1))
        self.logins = Logins(self.users)
        self.running: list[str] = []
        self.decided: list[str] = []
        self.free = threading.Semaphore(0)
        self.failed: list[Exception] = []

    def attempt(self, host: str, user: str, name: str | None = None) -> LoginAttempt:
        said = name or f"{host} {user}"

        def decide() -> str:
            self.running.append(said)
            assert self.free.acquire(timeout=PATIENCE_S)
            return said

        def done(result: str | Exception) -> None:
            self.failed.append(result) if isinstance(result, Exception) else self.decided.append(result)

        return self.logins.submit(host, user, NOW_MS, decide, done)

    def let_go(self, count: int) -> None:
        before = len(self.decided)
        self.free.release(count)
        wait_until(lambda: len(self.decided) == before + count)

    def runs(self, *names: str) -> None:
        wait_until(lambda: Counter(self.running[-len(names) :]) == Counter(names), lambda: self.running)


def test_an_address_that_floods_leaves_a_thread_to_the_others() -> None:
    scene = Scene()
    for number in range(FLOOD):
        scene.attempt("192.0.2.1", f"user{number}")
    wait_until(lambda: len(scene.running) == RUNNING_MAX)
    scene.attempt("192.0.2.2", "ada")
    wait_until(lambda: scene.running[-1] == "192.0.2.2 ada", lambda: scene.running)
    assert len(scene.running) == THREADS_MAX
    scene.free.release(FLOOD + 1)
    wait_until(lambda: len(scene.decided) == FLOOD + 1)


def test_a_user_that_many_addresses_try_leaves_a_thread_to_the_others() -> None:
    scene = Scene()
    for number in range(FLOOD):
        scene.attempt(f"192.0.2.{number}", "ada")
    wait_until(lambda: len(scene.running) == RUNNING_MAX)
    scene.attempt("192.0.2.200", "bob")
    wait_until(lambda: scene.running[-1] == "192.0.2.200 bob", lambda: scene.running)
    scene.free.release(FLOOD + 1)
    wait_until(lambda: len(scene.decided) == FLOOD + 1)


def test_users_of_one_address_are_served_in_turn() -> None:
    scene = Scene()
    for _ in range(FLOOD):
        scene.attempt("192.0.2.1", "ada", "ada")
    scene.attempt("192.0.2.1", "bob", "bob")
    wait_until(lambda: len(scene.running) == RUNNING_MAX)
    scene.let_go(2)
    assert "bob" in scene.running[: RUNNING_MAX + 2], "not after all of the other user"
    scene.free.release(FLOOD + 1)
    wait_until(lambda: len(scene.decided) == FLOOD + 1)


def test_addresses_that_failed_often_have_one_attempt_each_and_leave_a_thread() -> None:
    scene = Scene()
    bad = [f"192.0.2.{number}" for number in range(10)]
    for host in bad:
        for _ in range(FREE_MAX):
            scene.users.count_failure(host, NOW_MS)
    for host in bad:
        for number in range(3):
            scene.attempt(host, f"{host} {number}", host)
    wait_until(lambda: len(scene.running) == THREADS_MAX - 1)
    assert len(set(scene.running)) == THREADS_MAX - 1, "one of each"
    scene.attempt("198.51.100.1", "ada", "good")
    wait_until(lambda: scene.running[-1] == "good", lambda: scene.running)
    scene.free.release(31)
    wait_until(lambda: len(scene.decided) == 31)


def test_an_attempt_that_is_cancelled_leaves_its_line() -> None:
    scene = Scene()
    attempts = [scene.attempt("192.0.2.1", "ada", str(number)) for number in range(RUNNING_MAX + 3)]
    wait_until(lambda: len(scene.running) == RUNNING_MAX)
    attempts[RUNNING_MAX].cancel()
    attempts[RUNNING_MAX].cancel()
    attempts[-1].cancel()
    scene.free.release(FLOOD)
    wait_until(lambda: len(scene.decided) == RUNNING_MAX + 1)
    assert str(RUNNING_MAX) not in scene.running
    assert not scene.logins._lines


def test_what_a_decision_raises_is_told_and_frees_its_thread() -> None:
    scene = Scene()
    told: list[object] = []
    for _ in range(2 * THREADS_MAX):
        scene.logins.submit("192.0.2.1", "ada", NOW_MS, lambda: 1 // 0, told.append)
    wait_until(lambda: len(told) == 2 * THREADS_MAX)
    assert {type(each) for each in told} == {ZeroDivisionError}
    wait_until(lambda: not scene.logins._running)


def test_a_machine_without_threads_refuses_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    scene = Scene()
    with monkeypatch.context() as patch:
        patch.setattr(logins_module, "Thread", NoThread)
        scene.attempt("192.0.2.1", "ada")
    assert len(scene.failed) == 1
    scene.attempt("192.0.2.1", "ada")
    scene.let_go(1)


def test_who_can_come_again_is_refused_beyond_a_number_of_undecided_attempts() -> None:
    scene = Scene()

    async def play() -> None:
        def decide() -> None:
            assert scene.free.acquire(timeout=PATIENCE_S)

        def wait(host: str) -> asyncio.Task[None]:
            return asyncio.ensure_future(scene.logins.wait(host, "ada", NOW_MS, decide))

        waiting = [wait("192.0.2.1") for _ in range(UNDECIDED_PER_ORIGIN_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyLogins):
            await wait("192.0.2.1")
        waiting.append(wait("192.0.2.2"))
        await asyncio.sleep(0)
        waiting[-2].cancel()  # it waits in line, and makes room at once
        waiting[0].cancel()  # it is being decided, and counts until its thread is free
        await asyncio.sleep(0)
        waiting.append(wait("192.0.2.1"))
        await asyncio.sleep(0)
        with pytest.raises(TooManyLogins):
            await wait("192.0.2.1")
        scene.free.release(len(waiting))
        await asyncio.gather(*waiting, return_exceptions=True)
        async with asyncio.timeout(PATIENCE_S):
            while scene.logins._undecided:
                await asyncio.sleep(0.001)

    asyncio.run(play())
