"""/console/session: who is logged in, logging in and out; /console/rights: what the user may do with an object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_args

from leveret.core.errors import AccessRefused
from leveret.observability.audit import LOG_IN, Audit, kind_of
from leveret.protocols.console.oauth import LOGIN as OAUTH_LOGIN
from leveret.protocols.console.oauth import OAuthLogin
from leveret.protocols.http.auth import Auth
from leveret.protocols.http.origins import is_of_this_site
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.http.router import Answer, Routes
from leveret.protocols.http.sessions import BrowserSession, cookie_line
from leveret.protocols.rest.fields import RecordField, Text, json_body
from leveret.security.access import Access
from leveret.security.authorisation import OPERATOR, holds
from leveret.security.identity import Identity
from leveret.security.permissions import Access as Verb
from leveret.security.permissions import Resource

BODY_BYTES_MAX = 4_096
NO_STORE = (("Cache-Control", "no-store"),)
LOGIN = RecordField(
    "Who logs in.",
    {"user": Text("The name.", 255, 1, required=True), "password": Text("The password.", 1_024, required=True)},
)


class ConsoleLogin:
    """Logs people in who use the page."""

    def __init__(self, auth: Auth, access: Access, audit: Audit, oauth: OAuthLogin | None = None) -> None:
        """Let in who may use the management API; `oauth` lets them log in at a provider."""
        self._auth = auth
        self._oauth = oauth
        self._access = access
        self._audit = audit
        self.tell: Callable[[BrowserSession], Awaitable[object]] = _tell_nobody
        """Lets other nodes know that a session has ended."""
        self.cluster: str | None = None
        """The one that this server is a node of."""

    def routes(self) -> Routes:
        """What it answers."""
        return {
            **({} if self._oauth is None else self._oauth.routes(self, self._auth)),
            ("GET", "/console/session"): self.look,
            ("POST", "/console/session"): self.log_in,
            ("DELETE", "/console/session"): self.log_out,
            ("GET", "/console/rights/{vhost}/{kind}/{name}"): self.rights,
        }

    def look(self, request: Request) -> Answer:
        """Who is logged in; no user is an answer too, which the page asks for when it is opened."""
        session = self._auth.sessions.find(request)
        if session is None:
            return self._certified(request)
        # Every other part that takes the cookie knows by it that the session was used.
        renewed = cookie_line(self._auth.sessions.cookie_of(session), request)
        return json_response(self._shown(session), 200, (renewed, *NO_STORE))

    def _certified(self, request: Request) -> Answer:
        """Begin a session for the certificate that the browser has shown, if it is an operator's."""
        login = self._auth.certified(request)
        who = None if login is None or not is_of_this_site(request) else login.identity
        if who is None or not holds(who, OPERATOR):
            offered = {} if self._oauth is None else {"oauth": {"label": self._oauth.label, "path": OAUTH_LOGIN}}
            return json_response({"user": None, **offered}, 200, NO_STORE)
        return self._begin(request, who, 200, certified=True)

    def log_in(self, request: Request) -> Answer | Awaitable[Answer]:
        """Check a password and begin a session; wrong ones are answered late."""
        if len(request.body) > BODY_BYTES_MAX:
            raise Refusal(413, f"a login has at most {BODY_BYTES_MAX} bytes: send a name and a password")
        self._auth.check_secrecy(request)
        given = LOGIN.read("the body", json_body(request))
        return self._decided(request, self._auth.by_name(given["user"], given["password"], request.sender, "console"))

    async def _decided(self, request: Request, who: Identity | Awaitable[Identity]) -> Answer:
        try:
            identity = who if isinstance(who, Identity) else await who
        except Refusal as refusal:
            if refusal.status != 401:
                raise
            # Without the challenge, on which a browser would ask for a password itself.
            return problem(Refusal(401, "the name or the password is wrong: try again"))
        if not holds(identity, OPERATOR):
            raise Refusal(403, f"'{identity.user}' has none of the tags of operators: ask an administrator for one")
        return self._begin(request, identity, 201)

    def _begin(self, request: Request, identity: Identity, status: int, *, certified: bool = False) -> Answer:
        line, session = self.begin(request, identity, certified=certified)
        return json_response(self._shown(session), status, (line, *NO_STORE))

    def begin(
        self, request: Request, identity: Identity, *, certified: bool = False
    ) -> tuple[tuple[str, str], BrowserSession]:
        """Begin a session; gives the header that makes the browser keep it."""
        request.peer.authenticated()
        key, session = self._auth.sessions.begin(identity, certified=certified)
        self._audit.note(identity.user, LOG_IN, kind=kind_of(identity.tags), peer=request.peer.host)
        return cookie_line(key, request), session

    async def log_out(self, request: Request) -> Answer:
        """End the session, on every node."""
        session = self._auth.sessions.find(request)
        if session is not None and self._auth.sessions.identify(request) is not None:
            self._auth.sessions.end(session)
            await self.tell(session)
        headers = (cookie_line("", request), *NO_STORE)
        if session is None or self._oauth is None or session.identity.expires_ms is None:
            return Response(204, headers=headers)
        # The page leads the browser there: else the next login would need no password.
        return json_response({"logout_url": await self._oauth.logout_url(request, self._auth)}, 200, headers)

    def _shown(self, session: BrowserSession) -> dict[str, Any]:
        """What the page needs to know of a session."""
        who, permissions = session.identity, self._access.permissions
        vhosts = [each for each in self._access.vhosts() if who.may_enter(permissions, each)]
        return {
            "user": who.user,
            "tags": sorted(who.tags),
            "token": session.token,
            "vhosts": vhosts,
            "cluster": self.cluster,
            "makes_in": [each for each in vhosts if who.may_configure_in(permissions, each)],
        }

    def rights(self, request: Request) -> Answer:
        """Which accesses the user has to a queue or an exchange."""
        identity = self._auth.sessions.identify(request)
        if identity is None:
            raise Refusal(401, "no user is logged in, or the session has ended: log in")
        vhost, kind, name = (request.parameters[each] for each in ("vhost", "kind", "name"))
        if kind == "queue":
            resource = Resource("queue", name)
        elif kind == "exchange":
            resource = Resource("exchange", name)
        else:
            raise Refusal(404, f"rights are on a queue or an exchange, not on {kind!r}: correct the path")
        return json_response(
            {verb: self._may(identity, vhost, resource, verb) for verb in get_args(Verb)}, 200, NO_STORE
        )

    def _may(self, identity: Identity, vhost: str, resource: Resource, verb: Verb) -> bool:
        try:
            identity.check(self._access.permissions, vhost, resource, verb)
        except AccessRefused:
            return False
        return True


async def _tell_nobody(session: BrowserSession) -> None:
    """A single server has no other node to tell."""
