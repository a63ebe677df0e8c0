"""Logins of browsers: a cookie that no script can read, and a token that every change must carry beside it.

A session ends when nobody used it for a while, when it is old, when it is logged out, and when the password changes.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from hmac import compare_digest

from leveret.clock import Clock
from leveret.http.request import Refusal, Request
from leveret.security.identity import Identity
from leveret.security.users import User, Users

COOKIE = "leveret_session"
TOKEN_HEADER = b"x-csrf-token"
"""Pages of this server send it with every request, whether they have a token or not: others cannot."""
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))

TOKEN_BYTES = 32
IDLE_MS_MAX = 60 * 60_000
AGE_MS_MAX = 12 * 60 * 60_000
SESSIONS_MAX = 10_000
SESSIONS_PER_USER_MAX = 100  # whoever has one account could end the sessions of all others without it
COOKIE_CHARS_MAX = 4_096
PORT_CHARS_MAX = 5


@dataclass(slots=True)
class Session:
    """Somebody who has logged in."""

    user: str
    password_hash: str
    token: str
    began_ms: int
    used_ms: int

    def ended(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return now_ms - self.used_ms >= IDLE_MS_MAX or now_ms - self.began_ms >= AGE_MS_MAX


class Sessions:
    """Everybody who has logged in; forgotten when the server stops."""

    def __init__(self, users: Users, clock: Clock) -> None:
        """Nobody so far."""
        self._users = users
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sessions)

    def begin(self, user: User) -> tuple[str, Session]:
        """A new session, and the value of its cookie; the oldest one goes when there are too many."""
        now_ms = self._clock.now_ms()
        own = [key for key, each in self._sessions.items() if each.user == user.name]
        if len(own) >= SESSIONS_PER_USER_MAX:
            del self._sessions[own[0]]
        elif len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session = Session(user.name, user.password_hash, secrets.token_urlsafe(TOKEN_BYTES), now_ms, now_ms)
        key = secrets.token_urlsafe(TOKEN_BYTES)
        self._sessions[key] = session
        return key, session

    def find(self, request: Request) -> Session | None:
        """The session that a request belongs to, if it goes on."""
        key, now_ms = cookie(request), self._clock.now_ms()
        session = self._sessions.get(key)
        if session is None:
            return None
        known = session.user in self._users and self._users.get(session.user).password_hash == session.password_hash
        if not known or session.ended(now_ms):
            del self._sessions[key]
            return None
        session.used_ms = now_ms
        return session

    def end(self, request: Request) -> None:
        """Forget the session of a request."""
        self._sessions.pop(cookie(request), None)

    def identify(self, request: Request) -> Identity | None:
        """Who asks by a session; a change must carry its token, since the browser sends the cookie by itself."""
        session = self.find(request)
        if session is None:
            return None
        given = request.headers.get(TOKEN_HEADER, b"")
        if request.method not in SAFE and not compare_digest(given, session.token.encode()):
            raise Refusal(403, "the request does not carry the token of the session: load the page again")
        return Identity(session.user, self._users.get(session.user).tags)


def cookie_name(request: Request) -> str:
    """What a server calls its cookie: browsers send those of one port to all others of the host as well."""
    port = request.header(b"host").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() and len(port) <= PORT_CHARS_MAX else COOKIE


def cookie(request: Request) -> str:
    """What the browser was told to keep, "" if nothing."""
    wanted = cookie_name(request)
    for part in request.header(b"cookie")[:COOKIE_CHARS_MAX].split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            return value
    return ""


def cookie_line(key: str, request: Request) -> tuple[str, str]:
    """The header that makes a browser keep a session; "" makes it forget."""
    age_s = AGE_MS_MAX // 1000 if key else 0
    secure = "; Secure" if request.peer.tls else ""
    return "Set-Cookie", f"{cookie_name(request)}={key}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}"
