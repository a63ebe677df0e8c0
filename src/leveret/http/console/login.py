"""/console/session: who is logged in, logging in and out; /console/rights: what he may do with an object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, get_args

from leveret.core.errors import AccessRefused
from leveret.http.auth import Auth
from leveret.http.management.rules import MANAGERS
from leveret.http.origins import is_of_this_site
from leveret.http.problem import problem
from leveret.http.request import Refusal, Request
from leveret.http.response import Response, json_response
from leveret.http.rest.fields import Record, Text, json_body
from leveret.http.router import Answer, Routes
from leveret.http.sessions import Session, cookie_line
from leveret.security.access import Access
from leveret.security.identity import Identity
from leveret.security.permissions import Access as Verb
from leveret.security.permissions import Resource
from leveret.telemetry.audit import LOG_IN, Audit, kind_of

BODY_BYTES_MAX = 4_096
NOTHING = frozenset(("", "^$"))  # patterns by which operators say that a user may make nothing
NO_STORE = (("Cache-Control", "no-store"),)
LOGIN = Record(
    "Who logs in.",
    {"user": Text("The name.", 255, 1, required=True), "password": Text("The password.", 1_024, required=True)},
)


class Login:
    """Logs people in who use the page."""

    def __init__(self, auth: Auth, access: Access, audit: Audit) -> None:
        """Let in who may use the management API."""
        self._auth = auth
        self._access = access
        self._audit = audit
        self.tell: Callable[[Session], Awaitable[object]] = _tell_nobody
        """Lets other nodes know that a session has ended."""
        self.cluster: str | None = None
        """The one that this server is a node of."""

    def routes(self) -> Routes:
        """What it answers."""
        return {
            ("GET", "/console/session"): self.look,
            ("POST", "/console/session"): self.log_in,
            ("DELETE", "/console/session"): self.log_out,
            ("GET", "/console/rights/{vhost}/{kind}/{name}"): self.rights,
        }

    def look(self, request: Request) -> Answer:
        """Who is logged in; nobody is an answer too, which the page asks for when it is opened."""
        session = self._auth.sessions.find(request)
        if session is None:
            return self._certified(request)
        # Whoever else takes the cookie knows by it that the session was used.
        renewed = cookie_line(self._auth.sessions.cookie_of(session), request)
        return json_response(self._shown(session), 200, (renewed, *NO_STORE))

    def _certified(self, request: Request) -> Answer:
        """Begin a session for the certificate that the browser has shown, if it is an operator's."""
        login = self._auth.certified(request)
        who = None if login is None or not is_of_this_site(request) else login.identity
        if who is None or who.tags.isdisjoint(MANAGERS):
            return json_response({"user": None}, 200, NO_STORE)
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
        if identity.tags.isdisjoint(MANAGERS):
            raise Refusal(403, f"'{identity.user}' has none of the tags of operators: ask an administrator for one")
        return self._begin(request, identity, 201)

    def _begin(self, request: Request, identity: Identity, status: int, *, certified: bool = False) -> Answer:
        request.peer.authenticated()
        key, session = self._auth.sessions.begin(self._access.users.get(identity.user), certified=certified)
        self._audit.note(identity.user, LOG_IN, kind=kind_of(identity.tags), peer=request.peer.host)
        return json_response(self._shown(session), status, (cookie_line(key, request), *NO_STORE))

    async def log_out(self, request: Request) -> Answer:
        """End the session, on every node."""
        session = self._auth.sessions.find(request)
        if session is not None and self._auth.sessions.identify(request) is not None:
            self._auth.sessions.end(session)
            await self.tell(session)
        return Response(204, headers=(cookie_line("", request), *NO_STORE))

    def _shown(self, session: Session) -> dict[str, Any]:
        """What the page needs to know of a session."""
        own = sorted((row for row in self._access.permissions if row.user == session.user), key=attrgetter("vhost"))
        return {
            "user": session.user,
            "tags": sorted(self._access.users.get(session.user).tags),
            "token": session.token,
            "vhosts": [row.vhost for row in own],
            "cluster": self.cluster,
            "makes_in": [row.vhost for row in own if row.configure not in NOTHING],
        }

    def rights(self, request: Request) -> Answer:
        """Which accesses the user has to a queue or an exchange."""
        identity = self._auth.sessions.identify(request)
        if identity is None:
            raise Refusal(401, "nobody is logged in, or the session has ended: log in")
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


async def _tell_nobody(session: Session) -> None:
    """A single server has nobody to tell."""
