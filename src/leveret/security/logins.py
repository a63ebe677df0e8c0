"""Login attempts of every protocol: which of them are decided now, in which threads, and which wait in line.

    submit     line of (address, user) -> one of THREADS_MAX threads -> done(result)
    wait       the same for a coroutine; refused when too many attempts of the address, or of all, are undecided

What is known without waiting, as a password that was verified lately, does not come here. A password hash takes a
quarter of a second and 16 MiB on purpose. Lines are served in turn, so that a client waits for one attempt of each
other client and not for all attempts of the one that floods. The delay of a refusal is the caller's: it is a timer, and
holds no thread.

Wrong passwords are counted: the first wrong ones are answered at once, since a client that tries several passwords is
no attacker, and the next ones late. Right ones are never held back, so that no client can lock another user out. A
password that was right is known for a minute, so that clients which reconnect all the time do not pay for scrypt each
time: neither it nor its hash is kept, but a hash of both under a key that this process made up. A new password makes a
new stored string, so that the old one is never found again.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
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
FREE_MAX = 3  # failures that are answered at once
DELAYS_MS = (1_000, 2_000, 3_000)  # of the first one after those, the second, every further one
FORGOTTEN_MS = 300_000
COUNTED_MAX = 10_000
VERIFIED_MS = 60_000
VERIFIED_MAX = 1_000


class TooManyLogins(TooMany):
    """Too many login attempts are undecided."""


@dataclass(slots=True, eq=False)
class LoginAttempt:
    """One login attempt that waits, runs or is done, of a line."""

    _logins: Logins
    line: Line
    now_ms: int
    decide: Callable[[], Any]
    done: Callable[[Any], None]
    """Called in the thread that decided, with the result or with the exception."""

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


class Failures:
    """Failures by whatever they are counted by: user names, addresses."""

    def __init__(self, entries_max: int = COUNTED_MAX) -> None:
        self._entries_max = entries_max
        self._counts: dict[str, tuple[int, int]] = {}
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, key: str, now_ms: int) -> int:
        """Count one failure and say for how many milliseconds to hold the answer back."""
        late = self.add(key, now_ms) - FREE_MAX
        return 0 if late <= 0 else DELAYS_MS[min(late, len(DELAYS_MS)) - 1]

    def exceeded(self, key: str, now_ms: int) -> bool:
        """Whether the next failure would be held back, by what is known here; counts nothing."""
        count, at_ms = self._counts.get(key, (0, now_ms))
        return count >= FREE_MAX and now_ms - at_ms < FORGOTTEN_MS

    def add(self, key: str, now_ms: int) -> int:
        with self._mutex:
            earlier, at_ms = self._counts.pop(key, (0, now_ms))
            if now_ms - at_ms >= FORGOTTEN_MS:
                earlier = 0
            # Taken out and put in again, so that the first one is always the one that failed longest ago.
            self._counts[key] = (earlier + 1, now_ms)
            if len(self._counts) > self._entries_max:
                del self._counts[next(iter(self._counts))]
        return earlier + 1

    def learn(self, key: str, count: int, now_ms: int) -> None:
        """Other nodes have counted more failures of a key that is counted here."""
        with self._mutex:
            if key in self._counts:
                self._counts[key] = (count, now_ms)

    def forget(self, key: str) -> None:
        """Start anew, after a success."""
        with self._mutex:
            self._counts.pop(key, None)


class Verified:
    """What was verified, for a minute."""

    def __init__(self, entries_max: int = VERIFIED_MAX) -> None:
        self._key = secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)
        self._entries_max = entries_max
        self._verified_at_ms: dict[bytes, int] = {}
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._verified_at_ms)

    def knows(self, stored: str, password: bytes, now_ms: int) -> bool:
        """Whether this very pair was verified within the last minute; a clock that went back ends it."""
        digest = self._digest(stored, password)
        with self._mutex:
            at_ms = self._verified_at_ms.get(digest)
            if at_ms is None:
                return False
            fresh = 0 <= now_ms - at_ms < VERIFIED_MS
            if not fresh:
                del self._verified_at_ms[digest]
            return fresh

    def remember(self, stored: str, password: bytes, now_ms: int) -> None:
        """Note that the pair was verified; the oldest one makes room."""
        digest = self._digest(stored, password)
        with self._mutex:
            self._verified_at_ms[digest] = now_ms
            if len(self._verified_at_ms) > self._entries_max:
                del self._verified_at_ms[next(iter(self._verified_at_ms))]

    def _digest(self, stored: str, password: bytes) -> bytes:
        """What stands for the pair; a stored string has no zero byte."""
        return hashlib.blake2b(stored.encode() + b"\0" + password, key=self._key, digest_size=32).digest()
