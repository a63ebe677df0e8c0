"""/console/oauth: logs people in to the console at an OpenID Connect provider, by the authorisation code flow.

    GET /console/oauth/login      to the provider, with a cookie that belongs to this login
    GET /console/oauth/callback   from the provider: its code is exchanged for tokens, and a session begins

Tokens stay in this process: the browser gets the same cookie as after a login by password, and the session ends with
the access token. The page learns by a word in its query why a login failed; the log and the audit log say more.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from leveret.observability.logs import Log
from leveret.protocols.http.auth import Auth
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Response
from leveret.protocols.http.router import Answer, Routes
from leveret.protocols.http.sessions import cookie, cookie_name
from leveret.security.authorisation import OPERATOR, holds
from leveret.security.fetch import FAILURES
from leveret.security.identity import Identity

if TYPE_CHECKING:
    from leveret.protocols.console.login import ConsoleLogin
    from leveret.security.oidc import BrowserLogin, PendingLogin

LOGIN, CALLBACK, HOME = "/console/oauth/login", "/console/oauth/callback", "/console/"
COOKIE = "leveret_oauth"
PURPOSE = "login at a provider"
PENDING_S = 600
NO_STORE = (("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"))
HOST = re.compile(r"[\w.-]{1,253}(:\d{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:\d{1,5})?", re.ASCII)
ERROR_CHARS_MAX = 200

LOG = Log("http")


class OAuthLogin:
    """Logs people in at one provider."""

    def __init__(self, provider: BrowserLogin, label: str, redirect_url: str | None) -> None:
        """`redirect_url`: where browsers come back to; default: by the host that they asked."""
        self.label = label
        self._provider = provider
        self._redirect_url = redirect_url

    def routes(self, login: ConsoleLogin, auth: Auth) -> Routes:
        """What it answers; `login` begins sessions."""

        async def begin(request: Request) -> Answer:
            return await self._begin(request, auth)

        async def finish(request: Request) -> Answer:
            return await self._finish(request, auth, login)

        return {("GET", LOGIN): begin, ("GET", CALLBACK): finish}

    async def _begin(self, request: Request, auth: Auth) -> Answer:
        """Send the browser to the provider."""
        auth.check_secrecy(request)
        redirect = self._redirect_url or f"{_origin(request)}{CALLBACK}"
        try:
            url, pending = await auth.in_thread(request, lambda now_ms: self._provider.start(redirect, now_ms))
        except FAILURES as error:
            LOG.warning("login refused", peer=request.peer.host, reason=error)
            return _back(request, "unreachable")
        value = auth.sessions.sign(PURPOSE, json.dumps(pending).encode())
        return Response(303, headers=(("Location", url), _cookie_line(value, request), *NO_STORE))

    async def _finish(self, request: Request, auth: Auth, login: ConsoleLogin) -> Answer:
        """Begin a session for the person whom the provider sends back."""
        auth.check_secrecy(request)
        query, pending = request.query, _pending(request, auth)
        if "error" in query:
            reason = f"the provider says {query['error'][:ERROR_CHARS_MAX]!r}"
            LOG.warning("login refused", peer=request.peer.host, reason=reason)
            return _back(request, "denied")
        if pending is None or query.get("iss", self._provider.issuer) != self._provider.issuer:
            LOG.warning("login refused", peer=request.peer.host, reason="the browser did not begin this login")
            return _back(request, "failed")

        def exchange(now_ms: int) -> Identity:
            return self._provider.finish(pending, query.get("state", ""), query.get("code", ""), now_ms)

        try:
            identity = await auth.by_provider(request, exchange)
        except Refusal as refusal:
            return _back(request, "failed" if refusal.status == 401 else "busy")
        if not holds(identity, OPERATOR):
            LOG.warning(
                "login refused", user=identity.user, peer=request.peer.host, reason="it has no tag of operators"
            )
            return _back(request, "tags")
        try:
            line, _ = login.begin(request, identity)
        except Refusal as refusal:
            LOG.warning("login refused", user=identity.user, peer=request.peer.host, reason=refusal)
            return _back(request, "scopes")
        return Response(303, headers=(("Location", HOME), line, _cookie_line("", request), *NO_STORE))

    async def logout_url(self, request: Request, auth: Auth) -> str | None:
        """Where the browser is to go to log out at the provider as well, if that can be said."""
        home = f"{(self._redirect_url or _origin(request) + CALLBACK).removesuffix(CALLBACK)}{HOME}"
        try:
            return await auth.in_thread(request, lambda now_ms: self._provider.logout_url(home, now_ms))
        except (*FAILURES, Refusal) as error:
            LOG.warning("not logged out at the provider", peer=request.peer.host, reason=error)
            return None


def _origin(request: Request) -> str:
    """This server, as the browser calls it; the provider takes it only if it is registered there."""
    host = request.header(b"host")
    if not HOST.fullmatch(host):
        raise Refusal(400, "the header Host is no host: correct it, or give the option oauth_redirect_url")
    return f"{'https' if request.peer.tls else 'http'}://{host}"


def _pending(request: Request, auth: Auth) -> PendingLogin | None:
    """The login that the browser has begun."""
    from leveret.security.oidc import PendingLogin

    data = auth.sessions.signed(PURPOSE, cookie(request, COOKIE))
    return None if data is None else PendingLogin(*json.loads(data))


def _back(request: Request, why: str) -> Response:
    """The page again, which says why."""
    return Response(303, headers=(("Location", f"{HOME}?login={why}"), _cookie_line("", request), *NO_STORE))


def _cookie_line(value: str, request: Request) -> tuple[str, str]:
    """The cookie of a login that was begun; Lax: the provider's page leads the browser back here."""
    age_s = PENDING_S if value else 0
    secure = "; Secure" if request.peer.tls else ""
    name = cookie_name(request, COOKIE)
    return "Set-Cookie", f"{name}={value}; Path=/console/oauth; Max-Age={age_s}; HttpOnly; SameSite=Lax{secure}"
