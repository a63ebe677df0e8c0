"""Who asks: a name and a password (Basic), an API key or a JSON Web Token (Bearer), a browser's session, a certificate.

A login that was right a moment ago is decided in the loop, everything dear in the threads of `security/logins.py`.
After several failures wrong ones are answered late, right ones never.
"""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import TypeVar

from leveret.clock import Clock
from leveret.observability.audit import Audit
from leveret.observability.logs import Log
from leveret.protocols.http.origins import is_of_this_site
from leveret.protocols.http.request import FORWARDED, Proof, Refusal, Request
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.http.server import Handler
from leveret.protocols.http.sessions import TOKEN_HEADER, SessionFile, Sessions
from leveret.security.access import Access
from leveret.security.authentication import SECRET_IN_CLEAR, AuthenticatedLogin, Authentication, Credentials
from leveret.security.identity import BadToken, Identity
from leveret.security.logins import NO_NAME, TooManyLogins
from leveret.security.passwords import encoded

CHALLENGES = (("WWW-Authenticate", 'Basic realm="leveret"'), ("WWW-Authenticate", 'Bearer realm="leveret"'))

PROTOCOL = "HTTP"
PROOF_MS = 1_000  # that credentials of a connection are not verified again, unless rights change: keys and groups end

T = TypeVar("T")
LOG = Log("http")


class Auth:
    """Decides who asks; one for each server."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        authentication: Authentication | None = None,
        *,
        secrets_in_clear: bool = False,
        session_keys: tuple[bytes, ...] = (),
        session_file: SessionFile | None = None,
        certificates: bool = False,
    ) -> None:
        """`secrets_in_clear`: take passwords and tokens from other machines without TLS as well.

        `certificates`: a verified client certificate is its user in requests without other credentials.
        """
        self.sessions = Sessions(access.users, clock, session_keys, session_file)
        self._access = access
        self._logins = access.logins
        self._clock = clock
        self._authentication = authentication or Authentication(access)
        self._secrets_in_clear = secrets_in_clear
        self._certificates = certificates
        self.audit: Audit | None = None
        """Where failed logins are noted."""

    def wrap(self, handler: Handler, open_paths: frozenset[bytes] = frozenset()) -> Handler:
        """A handler whose requests have an `identity`; the open paths (page, documents, health) need none."""

        def identified(request: Request) -> Answered:
            if request.raw_path in open_paths:
                return handler(request)
            proof, header = request.peer.proof, request.headers.get(b"authorization")
            if proof is not None and proof.header == header and self._holds(proof, request):
                request.identity = proof.identity
                return handler(request)
            who = self.identify(request)
            if isinstance(who, Identity):
                request.identity = who
                request.peer.authenticated()
                self._keep(request, who)
                return handler(request)
            return self._identified_later(request, who, handler)

        return identified

    def _holds(self, proof: Proof, request: Request) -> bool:
        """Whether the same credentials prove now what they proved in the last request of the connection."""
        fresh = 0 < proof.until_ms - self._clock.now_ms() <= PROOF_MS
        return fresh and proof.generation == self._access.generation and FORWARDED.isdisjoint(request.headers)

    def _keep(self, request: Request, who: Identity) -> None:
        """Remember for the next requests of a connection what its credentials prove, unless a proxy sends them."""
        header = request.headers.get(b"authorization")
        if header is not None and FORWARDED.isdisjoint(request.headers):
            until_ms = self._clock.now_ms() + PROOF_MS
            until_ms = until_ms if who.expires_ms is None else min(until_ms, who.expires_ms)
            request.peer.proof = Proof(header, who, self._access.generation, until_ms)

    async def _identified_later(self, request: Request, who: Awaitable[Identity], handler: Handler) -> Answer:
        request.identity = await who
        request.peer.authenticated()
        answer = handler(request)
        return await answer if isinstance(answer, Awaitable) else answer

    def identify(self, request: Request) -> Identity | Awaitable[Identity]:
        """Who sends a request; refuses with 401."""
        scheme, _, value = request.header(b"authorization").partition(" ")
        if not scheme:
            return self._by_session(request) or self._by_certificate(request)
        self.check_secrecy(request)
        if scheme.lower() == "basic":
            return self._by_password(value.strip(), request.sender)
        if scheme.lower() == "bearer":
            return self._authenticate(Credentials(None, value.strip().encode()), request.sender)
        raise _unauthorized("the scheme of the credentials is not known here")

    def check_secrecy(self, request: Request) -> None:
        """Refuse credentials that can be read on their way."""
        if not (request.is_local or request.is_encrypted or self._secrets_in_clear):
            LOG.warning("login refused", peer=request.peer.host, reason=SECRET_IN_CLEAR)
            raise Refusal(403, "passwords and tokens are taken from other machines by TLS only: use https")

    def _by_session(self, request: Request) -> Identity | None:
        found = self.sessions.identify(request)
        if found is not None:
            self.check_secrecy(request)
        return found

    # Certificates

    def _by_certificate(self, request: Request) -> Identity:
        login = self.certified(request)
        if login is not None and login.identity is not None:
            if not is_of_this_site(request):
                raise Refusal(403, "a page of another site may not use a client certificate: send a token")
            return login.identity
        if login is not None:
            LOG.warning("login refused", peer=request.peer.host, reason=login.reason)
            self._note_failure(PROTOCOL, request.peer.certificate_name, request.peer.host, login)
        if TOKEN_HEADER in request.headers:
            # Our page: without a challenge, on which the browser would ask for a password itself.
            raise Refusal(401, "no user is logged in, or the session has ended: log in")
        raise _unauthorized("the request has no credentials" if login is None else "the certificate is of no user")

    def certified(self, request: Request) -> AuthenticatedLogin | None:
        """What the client certificate of a request is good for; None: there is none, or it does not count here."""
        name = request.peer.certificate_name
        if name is None or not self._certificates:
            return None
        return self._authentication.certified(name, request.sender)

    # Passwords

    def _by_password(self, value: str, host: str) -> Identity | Awaitable[Identity]:
        try:
            name, colon, password = b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise _unauthorized("the credentials are not in base64") from None
        if not colon:
            raise _unauthorized("the credentials have no colon")
        return self.by_name(name, password, host)

    def by_name(self, name: str, password: str, host: str, protocol: str = PROTOCOL) -> Identity | Awaitable[Identity]:
        """Who has this name and password; `protocol` is for the audit log."""
        return self._authenticate(Credentials(name, encoded(password)), host, protocol)

    def _authenticate(self, given: Credentials, host: str, protocol: str = PROTOCOL) -> Identity | Awaitable[Identity]:
        known = self._authentication.recall(given, host, self._clock.now_ms())
        return known or self._decide(given, host, protocol)

    async def _decide(self, given: Credentials, host: str, protocol: str) -> Identity:
        return await self._decided(
            given.name, host, protocol, lambda now_ms: self._authentication.authenticate(given, host, now_ms)
        )

    async def _decided(
        self, name: str | None, host: str, protocol: str, authenticate: Callable[[int], AuthenticatedLogin]
    ) -> Identity:
        """Decide in a thread of the logins; hold a refusal back."""

        def decide(now_ms: int) -> AuthenticatedLogin:
            login = authenticate(now_ms)
            if login.identity is None:  # noted also when the client has disconnected
                self._note_failure(protocol, name, host, login)
            return login

        login = await self._wait(name, host, decide)
        if login.identity is not None:
            return login.identity
        LOG.warning("login refused", user=name, peer=host, reason=login.reason)
        await asyncio.sleep(login.delay_ms / 1000)
        raise _unauthorized("the credentials are not accepted")

    async def _wait(self, name: str | None, host: str, decide: Callable[[int], T]) -> T:
        now_ms = self._clock.now_ms()
        try:
            return await self._logins.wait(host, name or NO_NAME, now_ms, lambda: decide(now_ms))
        except TooManyLogins as error:
            raise Refusal(429, str(error), (("Retry-After", "1"),)) from None

    # Providers

    async def by_provider(self, request: Request, exchange: Callable[[int], Identity]) -> Identity:
        """Who has logged in at a provider; `exchange` asks it, in a thread of the logins."""
        host = request.peer.host

        def authenticate(now_ms: int) -> AuthenticatedLogin:
            try:
                return AuthenticatedLogin(exchange(now_ms))
            except BadToken as error:
                return self._authentication.refuse(Credentials(None), str(error), host, now_ms)

        return await self._decided(None, host, "console", authenticate)

    async def in_thread(self, request: Request, job: Callable[[int], T]) -> T:
        """Do something that waits for a provider, in a thread of the logins: as many as those may wait, and no more."""
        return await self._wait(None, request.peer.host, job)

    def _note_failure(self, protocol: str, name: str | None, host: str, login: AuthenticatedLogin) -> None:
        if self.audit is not None:
            self.audit.login_failed(protocol, name, host, login.reason)


def _unauthorized(detail: str) -> Refusal:
    return Refusal(401, f"{detail}: send a user and password, or a token", CHALLENGES)
