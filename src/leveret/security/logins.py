"""Login attempts of every protocol: which of them are decided now, in which threads, and which wait in line.

    submit     line of (address, user) -> one of THREADS_MAX threads -> done(result)
    wait       the same for a coroutine; refused when too many attempts of the address, or of all, are undecided

What is known without waiting, as a password that was verified lately, does not come here. A password hash takes a
quarter of a second and 16 MiB on purpose. Lines are served in turn, so that a client waits for one attempt of each
other client and not for all attempts of the one that floods. The delay of a refusal is the caller's: it is a timer, and
holds no thread.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.core.errors import TooMany
from leveret.core.names import NAME_BYTES_MAX
from leveret.security.peers import origin

if TYPE_CHECKING:
    from leveret.security.users import Users

THREADS_MAX = 4  # each may hash a password: more of them would take the processors from the event loop
RUNNING_MAX = THREADS_MAX - 1
"""Attempts of one address, or for one user, that are decided at the same time: the others always find a thread."""
RUNNING_FAILED_MAX = 1
"""The same for an address that has failed often; all those addresses together leave one thread to the others."""
UNDECIDED_MAX = 512
"""Attempts of callers that can be told to try again (HTTP); the others hold a connection that has its own limits."""
UNDECIDED_PER_ORIGIN_MAX = 8
NO_NAME = ""  # of tokens and keys: all of them count as one user, so that passwords always find a thread

T = TypeVar("T")
Line = tuple[str, str]


class TooManyLogins(TooMany):
    """Too many login attempts are undecided."""


class LoginAttempt:
    """One login attempt that waits, runs or is done."""

    __slots__ = ("_logins", "decide", "done", "line", "now_ms")

    def __init__(
        self, logins: Logins, line: Line, now_ms: int, decide: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        """Of a line; `done` is called in the thread that decided, with the result or with the exception."""
        self._logins = logins
        self.line = line
        self.now_ms = now_ms
        self.decide = decide
        self.done = done

    def cancel(self) -> None:
        """Leave the line; an attempt that is being decided goes on, and its caller ignores the result."""
        self._logins.withdraw(self)


class Logins:
    """Decides login attempts; one for all protocols of a server. Its threads end when no attempt waits."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._mutex = Lock()
        self._lines: dict[Line, dict[LoginAttempt, None]] = {}
        self._running: Counter[str] = Counter()
        self._running_by_user: Counter[str] = Counter()
        self._undecided: Counter[str] = Counter()

    def submit(
        self, host: str, name: str, now_ms: int, decide: Callable[[], T], done: Callable[[T | Exception], None]
    ) -> LoginAttempt:
        """Put an attempt in line; `done` gets its result, or its exception, in the thread that decided."""
        attempt = LoginAttempt(self, (origin(host), name[:NAME_BYTES_MAX]), now_ms, decide, done)
        with self._mutex:
            self._lines.setdefault(attempt.line, {})[attempt] = None
            self._start()
        return attempt

    async def wait(self, host: str, name: str, now_ms: int, decide: Callable[[], T]) -> T:
        """The result of an attempt; TooManyLogins when too many are undecided."""
        loop, key = asyncio.get_running_loop(), origin(host)
        if self._undecided[key] >= UNDECIDED_PER_ORIGIN_MAX or self._undecided.total() >= UNDECIDED_MAX:
            raise TooManyLogins("too many logins are being decided: try again")
        future: asyncio.Future[T] = loop.create_future()

        def tell(result: T | Exception) -> None:
            if not future.done():
                future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)
            forget(self._undecided, key)

        def done(result: T | Exception) -> None:
            loop.call_soon_threadsafe(tell, result)

        self._undecided[key] += 1
        attempt = self.submit(host, name, now_ms, decide, done)
        try:
            return await future
        except asyncio.CancelledError:
            # One that runs counts until its thread is free again: clients cannot take all threads by going away.
            if self.withdraw(attempt):
                forget(self._undecided, key)
            raise

    def withdraw(self, attempt: LoginAttempt) -> bool:
        """Take an attempt out of its line; False when it does not wait there any more."""
        with self._mutex:
            line = self._lines.get(attempt.line)
            if line is None or attempt not in line:
                return False
            del line[attempt]
            if not line:
                del self._lines[attempt.line]
            return True

    # Threads; what follows holds the mutex

    def _start(self) -> None:
        """Decide as many attempts as may run."""
        while self._running.total() < THREADS_MAX and (attempt := self._next()) is not None:
            thread = Thread(target=self._work, args=(attempt,), name="leveret-login")
            try:
                thread.start()
            except RuntimeError as error:  # the machine has no thread left
                self._release(attempt)
                attempt.done(error)

    def _next(self) -> LoginAttempt | None:
        """Take the first attempt that may run; its line goes behind all others."""
        for line, waiting in self._lines.items():
            if self._may_run(*line, next(iter(waiting)).now_ms):
                break
        else:
            return None
        del self._lines[line]
        attempt = next(iter(waiting))
        del waiting[attempt]
        if waiting:
            self._lines[line] = waiting
        self._running[line[0]] += 1
        self._running_by_user[line[1]] += 1
        return attempt

    def _may_run(self, origin: str, user: str, now_ms: int) -> bool:
        if self._users.failed_often(origin, now_ms):
            return self._running[origin] < RUNNING_FAILED_MAX and self._running.total() < THREADS_MAX - 1
        return self._running[origin] < RUNNING_MAX and self._running_by_user[user] < RUNNING_MAX

    def _release(self, attempt: LoginAttempt) -> None:
        origin, user = attempt.line
        forget(self._running, origin)
        forget(self._running_by_user, user)

    def _work(self, first: LoginAttempt) -> None:
        """Decide attempts until none may run; without the mutex."""
        attempt: LoginAttempt | None = first
        while attempt is not None:
            try:
                result = attempt.decide()
            except Exception as error:
                result = error
            with suppress(RuntimeError):  # the loop of the caller has ended
                attempt.done(result)
            with self._mutex:
                self._release(attempt)
                attempt = self._next()
                self._start()


def forget(counts: Counter[str], key: str) -> None:
    """Count one less; what is not counted any more takes no memory."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
