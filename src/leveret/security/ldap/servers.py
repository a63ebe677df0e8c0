"""The LDAP servers of a directory: which of them is asked, connections that wait for their next use, and failures.

A server that fails is not asked for RETRY_S; then one login tries it, while others go on without it. So a server that
hangs costs the threads of logins its timeout once in a while, and not each of them each time.
"""

import ssl
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

from leveret.security.ldap.connection import HostNames, LdapConnection, LdapServer, Unavailable

RETRY_S = 10.0
IDLE_S = 60.0  # servers close connections that are not used, some of them after a few minutes
IDLE_MAX = 4  # connections to one server: as many as there are threads for logins

T = TypeVar("T")
Tell = Callable[[str, str | None], object]
"""Is told the URL of a server and why it fails; None: it answers again."""


class _State:
    """What is known about one server."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.retry_s = 0.0
        self.idle: list[tuple[float, LdapConnection]] = []


class LdapServers:
    """Asks one of several servers; used by many threads."""

    def __init__(
        self,
        servers: Sequence[LdapServer],
        context: ssl.SSLContext | None,
        timeout_s: float,
        tell: Tell = lambda *_: None,
    ) -> None:
        self._servers = {each: _State() for each in servers}
        self._context = context
        self._timeout_s = timeout_s
        self._tell = tell
        self._names = HostNames()
        self._mutex = Lock()

    def ask(self, question: Callable[[LdapConnection], T]) -> T:
        """The answer of the first server that gives one; raises Unavailable when none does, and what is refused."""
        for server, state in self._servers.items():
            if not self._may_ask(state):
                continue
            try:
                answer = self._ask(server, state, question)
            except Unavailable as error:
                self._failed(server, state, str(error))
                continue
            except Exception:
                self._works(server, state)
                raise
            self._works(server, state)
            return answer
        troubles = "; ".join(f"{server.url}: {state.trouble}" for server, state in self._servers.items())
        raise Unavailable(f"no LDAP server answers ({troubles}): see to it, logins are tried every {RETRY_S:g} s")

    def _may_ask(self, state: _State) -> bool:
        """Whether a server is not in trouble, or the next login may try it."""
        with self._mutex:
            now_s = time.monotonic()
            if state.trouble is None:
                return True
            if now_s < state.retry_s:
                return False
            state.retry_s = now_s + self._timeout_s + RETRY_S
            return True

    def _ask(self, server: LdapServer, state: _State, question: Callable[[LdapConnection], T]) -> T:
        """Ask on a connection that waits, or on a new one; the server may have closed those that wait."""
        waiting = self._taken(state)
        if waiting is not None:
            waiting.deadline_s = time.monotonic() + self._timeout_s / 2  # else none is left for a new one
            try:
                return self._asked(waiting, state, question)
            except Unavailable:
                self.close_idle(state)
        deadline_s = time.monotonic() + self._timeout_s
        return self._asked(LdapConnection(server, self._names, self._context, deadline_s), state, question)

    def _asked(self, connection: LdapConnection, state: _State, question: Callable[[LdapConnection], T]) -> T:
        """Ask, and keep the connection for the next login, which begins with a bind of its own."""
        is_good = True
        try:
            return question(connection)
        except Unavailable:
            is_good = False
            raise
        finally:
            with self._mutex:
                is_kept = is_good and len(state.idle) < IDLE_MAX
                if is_kept:
                    state.idle.append((time.monotonic() + IDLE_S, connection))
            if not is_kept:
                connection.close()

    def _taken(self, state: _State) -> LdapConnection | None:
        """The connection that was used last, if it is not too old."""
        with self._mutex:
            while state.idle:
                until_s, connection = state.idle.pop()
                if time.monotonic() < until_s:
                    return connection
                connection.close()
        return None

    def close_idle(self, state: _State) -> None:
        with self._mutex:
            idle, state.idle = state.idle, []
        for _, connection in idle:
            connection.close()

    def close(self) -> None:
        for state in self._servers.values():
            self.close_idle(state)

    def _failed(self, server: LdapServer, state: _State, reason: str) -> None:
        with self._mutex:
            is_news = state.trouble is None
            state.trouble = reason
            state.retry_s = time.monotonic() + RETRY_S
        self.close_idle(state)
        if is_news:
            self._tell(server.url, reason)

    def _works(self, server: LdapServer, state: _State) -> None:
        with self._mutex:
            is_news, state.trouble = state.trouble is not None, None
        if is_news:
            self._tell(server.url, None)
