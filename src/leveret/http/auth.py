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

from leveret.clock import Clock
from leveret.http.request import Refusal, Request
from leveret.http.server import Answer, Handler
from leveret.http.sessions import TOKEN_HEADER, Sessions
from leveret.security.access import Access
from leveret.security.authentication import Authentication, Credentials
from leveret.security.identity import Identity
from leveret.security.passwords import encoded
from leveret.security.peers import is_loopback, origin
from leveret.telemetry.logs import Log

DECIDING_MAX = 64  # logins that wait for a hash or a key: each takes a thread, and a hash takes 16 MiB
DECIDING_PER_ORIGIN_MAX = 8
CHALLENGES = (("WWW-Authenticate", 'Basic realm="leveret"'), ("WWW-Authenticate", 'Bearer realm="leveret"'))

LOG = Log("http")


@dataclass(frozen=True, slots=True)
class Authorization:
    """The parts of an Authorization header."""

    scheme: str
    value: str


class Auth:
    """Decides who asks; one for each server."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        authentication: Authentication | None = None,
        *,
        secrets_in_clear: bool = False,
        session_key: bytes | None = None,
    ) -> None:
        """`secrets_in_clear`: take passwords and tokens from other machines without TLS as well."""
        self.sessions = Sessions(access.users, clock, session_key)
        self._clock = clock
        self._authentication = authentication or Authentication(access)
        self._secrets_in_clear = secrets_in_clear
        self._deciding: Counter[str] = Counter()

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
        given = authorization(request)
        if given is None:
            return self._by_session(request)
        self.check_secrecy(request)
        peer = request.peer
        if given.scheme == "basic":
            return self._by_password(given.value, peer.host)
        if given.scheme == "bearer":
            return self._authenticate(Credentials(None, given.value.encode()), peer.host)
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
        return self._authenticate(Credentials(name, encoded(password)), host)

    def _authenticate(self, given: Credentials, host: str) -> Identity | Awaitable[Identity]:
        known = self._authentication.recall(given, host, self._clock.now_ms())
        return known or self._decide(host, lambda: self._log_in(given, host))

    def _log_in(self, given: Credentials, host: str) -> Identity | int:
        """Check credentials; the delay of the refusal if they are wrong."""
        login = self._authentication.authenticate(given, host, self._clock.now_ms())
        if login.identity is None:
            LOG.warning("login refused", user=given.name, peer=host, reason=login.reason)
            return login.delay_ms
        return login.identity

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


def authorization(request: Request) -> Authorization | None:
    """What the request proves itself with, if anything."""
    scheme, _, value = request.header(b"authorization").partition(" ")
    return Authorization(scheme.lower(), value.strip()) if scheme else None


def _unauthorized(detail: str) -> Refusal:
    return Refusal(401, f"{detail}: send a user and password, or a token", CHALLENGES)
