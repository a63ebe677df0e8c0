"""Who asks: a name and a password (Basic), an API key or a JSON Web Token (Bearer), or a browser's session.

A login that was right a moment ago is decided in the loop, everything dear elsewhere. Wrong ones are answered late,
right ones never; of each address only some are decided at the same time, so that nobody can take the whole machine.
"""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leveret.clock import Clock
from leveret.http.request import Refusal, Request
from leveret.http.server import Answer, Handler
from leveret.http.sessions import TOKEN_HEADER, Sessions
from leveret.security.access import Access
from leveret.security.api_keys import PREFIX
from leveret.security.failures import Failures
from leveret.security.identity import BadToken, Identity, tags_within
from leveret.security.peers import is_loopback, origin
from leveret.security.users import User
from leveret.telemetry.logs import Log

if TYPE_CHECKING:
    from leveret.security.web_tokens import WebTokens

DECIDING_MAX = 64  # logins that wait for a hash or a key: each takes a thread, and a hash takes 16 MiB
DECIDING_PER_ORIGIN_MAX = 8
CHALLENGES = (("WWW-Authenticate", 'Basic realm="leveret"'), ("WWW-Authenticate", 'Bearer realm="leveret"'))

LOG = Log("http")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The parts of an Authorization header."""

    scheme: str
    value: str


class Auth:
    """Decides who asks; one for each server."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        web_tokens: WebTokens | None = None,
        *,
        secrets_in_clear: bool = False,
        failures: Failures | None = None,
        session_key: bytes | None = None,
    ) -> None:
        """`secrets_in_clear`: take passwords and tokens from other machines without TLS as well."""
        self.sessions = Sessions(access.users, clock, session_key)
        self._access = access
        self._clock = clock
        self._web_tokens = web_tokens
        self._secrets_in_clear = secrets_in_clear
        self._deciding: Counter[str] = Counter()
        self._failures = Failures() if failures is None else failures

    def wrap(self, handler: Handler, open_paths: frozenset[bytes] = frozenset()) -> Handler:
        """A handler whose requests have an `identity`; the open paths (page, documents, health) need none."""

        def identified(request: Request) -> Answer | Awaitable[Answer]:
            if request.raw_path in open_paths:
                return handler(request)
            who = self.identify(request)
            if isinstance(who, Identity):
                request.identity = who
                return handler(request)
            return self._identified_later(request, who, handler)

        return identified

    async def _identified_later(self, request: Request, who: Awaitable[Identity], handler: Handler) -> Answer:
        request.identity = await who
        answer = handler(request)
        return await answer if isinstance(answer, Awaitable) else answer

    def identify(self, request: Request) -> Identity | Awaitable[Identity]:
        """Who sends a request; refuses with 401."""
        given = credentials(request)
        if given is None:
            return self._by_session(request)
        self.check_secrecy(request)
        peer = request.peer
        if given.scheme == "basic":
            return self._by_password(given.value, peer.host)
        if given.scheme == "bearer":
            return self._by_token(given.value, peer.host)
        raise _unauthorized("the scheme of the credentials is not known here")

    def check_secrecy(self, request: Request) -> None:
        """Refuse what proves somebody and can be read on its way."""
        if not (request.peer.tls or self._secrets_in_clear or is_loopback(request.peer.host)):
            raise Refusal(403, "passwords and tokens are taken from other machines by TLS only: use https")

    def _by_session(self, request: Request) -> Identity:
        found = self.sessions.identify(request)
        if found is None and TOKEN_HEADER in request.headers:
            # Our page: without a challenge, on which the browser would ask for a password itself.
            raise Refusal(401, "nobody is logged in, or the session has ended: log in")
        if found is None:
            raise _unauthorized("the request has no credentials")
        self.check_secrecy(request)
        return found

    # Passwords

    def _by_password(self, value: str, host: str) -> Identity | Awaitable[Identity]:
        try:
            name, colon, password = b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise _unauthorized("the credentials are not in base64") from None
        if not colon:
            raise _unauthorized("the credentials have no colon")
        return self.by_name(name, password, host)

    def by_name(self, name: str, password: str, host: str) -> Identity | Awaitable[Identity]:
        """Who has this name and password."""
        user = self._access.users.recall(name, password, host, self._clock.now_ms())
        if user is not None:
            return _identity(user)
        return self._decide(host, lambda: self._log_in(name, password, host))

    def _log_in(self, name: str, password: str, host: str) -> Identity | int:
        """Check a password; the delay of the refusal if it is wrong."""
        login = self._access.users.authenticate(name, password, host, self._clock.now_ms())
        if login.user is None:
            LOG.warning("login refused", user=name, peer=host, reason=login.reason)
            return login.delay_ms
        return _identity(login.user)

    # Tokens

    def _by_token(self, token: str, host: str) -> Identity | Awaitable[Identity]:
        now_ms = self._clock.now_ms()
        if token.startswith(PREFIX):
            key = self._access.api_keys.find(token, now_ms)
            if key is None or key.user not in self._access.users:
                return self._refuse_token(host, "the API key is unknown, wrong or has ended")
            tags = self._access.users.get(key.user).tags
            return Identity(key.user, tags_within(tags, key.scopes), key.scopes)
        tokens = self._web_tokens
        if tokens is None:
            return self._refuse_token(host, "web tokens are not taken: no issuer is configured")
        return tokens.recall(token, now_ms) or self._decide(host, lambda: self._verify(tokens, token, host))

    def _verify(self, tokens: WebTokens, token: str, host: str) -> Identity | int:
        """Check a token; the delay of the refusal if it is bad."""
        try:
            return tokens.verify(token, self._clock.now_ms())
        except BadToken as error:
            return self._count(host, str(error))

    def _refuse_token(self, host: str, reason: str) -> Awaitable[Identity]:
        return self._decide(host, lambda: self._count(host, reason))

    def _count(self, host: str, reason: str) -> int:
        """Note a bad token, in a thread; for how long its refusal is held back."""
        LOG.warning("token refused", peer=host, reason=reason)
        return self._failures.count(origin(host), self._clock.now_ms())

    # What takes time

    async def _decide(self, host: str, decide: Callable[[], Identity | int]) -> Identity:
        """Decide in another thread; hold a refusal back."""
        key = origin(host)
        if self._deciding[key] >= DECIDING_PER_ORIGIN_MAX or self._deciding.total() >= DECIDING_MAX:
            raise Refusal(429, "too many logins are being decided: try again", (("Retry-After", "1"),))
        self._deciding[key] += 1
        deciding = asyncio.get_running_loop().run_in_executor(None, decide)
        deciding.add_done_callback(lambda _: self._decided(key))
        # A client that goes does not end the work in the thread: it counts until it is done.
        decided = await asyncio.shield(deciding)
        if isinstance(decided, Identity):
            return decided
        await asyncio.sleep(decided / 1000)
        raise _unauthorized("the credentials are not accepted")

    def _decided(self, key: str) -> None:
        self._deciding[key] -= 1
        if not self._deciding[key]:
            del self._deciding[key]


def credentials(request: Request) -> Credentials | None:
    """What the request proves itself with, if anything."""
    scheme, _, value = request.header(b"authorization").partition(" ")
    return Credentials(scheme.lower(), value.strip()) if scheme else None


def _identity(user: User) -> Identity:
    return Identity(user.name, user.tags)


def _unauthorized(detail: str) -> Refusal:
    return Refusal(401, f"{detail}: send a user and password, or a token", CHALLENGES)
