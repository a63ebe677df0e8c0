"""The handler of / and of everything under /console/: the files of the page, and its login."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, get_args

from leveret.core.errors import AccessRefused
from leveret.observability.audit import LOG_IN, Audit, kind_of
from leveret.observability.logs import Log
from leveret.protocols.http.auth import Auth
from leveret.protocols.http.fields import RecordField, Text, json_body
from leveret.protocols.http.origins import is_of_this_site
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answer, Answered, Response, json_response, page_headers
from leveret.protocols.http.router import Router, Routes
from leveret.protocols.http.sessions import BrowserSession, cookie, cookie_line, cookie_name
from leveret.security.access import Access
from leveret.security.authorisation import OPERATOR, holds
from leveret.security.fetch import FAILURES
from leveret.security.identity import Identity
from leveret.security.permissions import Access as Verb
from leveret.security.permissions import Resource

if TYPE_CHECKING:
    from leveret.security.oidc import BrowserLogin, PendingLogin

BODY_BYTES_MAX = 4_096
NO_STORE = (("Cache-Control", "no-store"),)
LOGIN = RecordField(
    "Who logs in.",
    {"user": Text("The name.", 255, 1, required=True), "password": Text("The password.", 1_024, required=True)},
)
OAUTH_LOGIN, CALLBACK, HOME = "/console/oauth/login", "/console/oauth/callback", "/console/"
COOKIE = "leveret_oauth"
PURPOSE = "login at a provider"
PENDING_S = 600
OAUTH_NO_STORE = (("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"))
HOST = re.compile(r"[\w.-]{1,253}(:\d{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:\d{1,5})?", re.ASCII)
ERROR_CHARS_MAX = 200

LOG = Log("http")
OUTSIDE = (b"/", b"/console")
PATHS = (*OUTSIDE, b"/console/")
"""Its paths, and how others begin."""
PAGE = "index.html"
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
HEADERS = (
    *page_headers(),
    # A browser asks each time whether it has the newest: a server that was upgraded meets no old page.
    ("Cache-Control", "no-cache"),
)


class ConsoleLogin:
    """Logs people in who use the page."""

    def __init__(self, auth: Auth, access: Access, audit: Audit, oauth: OAuthLogin | None = None) -> None:
        """Let in who may use the management API; `oauth` lets them log in at a provider."""
        self._auth = auth
        self._oauth = oauth
        self._access = access
        self._audit = audit
        self.announce: Callable[[BrowserSession], Awaitable[object]] = _announce_to_none
        """Lets other nodes know that a session has ended."""
        self.cluster: str | None = None
        """The one that this server is a node of."""

    def routes(self) -> Routes:
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

    def log_in(self, request: Request) -> Answered:
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
            await self.announce(session)
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


async def _announce_to_none(session: BrowserSession) -> None:
    """A single server has no other node to tell."""


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

        return {("GET", OAUTH_LOGIN): begin, ("GET", CALLBACK): finish}

    async def _begin(self, request: Request, auth: Auth) -> Answer:
        auth.check_secrecy(request)
        redirect = self._redirect_url or f"{_origin(request)}{CALLBACK}"
        try:
            url, pending = await auth.in_thread(request, lambda now_ms: self._provider.start(redirect, now_ms))
        except FAILURES as error:
            LOG.warning("login refused", peer=request.peer.host, reason=error)
            return _back(request, "unreachable")
        value = auth.sessions.sign(PURPOSE, json.dumps(pending).encode())
        return Response(303, headers=(("Location", url), _cookie_line(value, request), *OAUTH_NO_STORE))

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
        return Response(303, headers=(("Location", HOME), line, _cookie_line("", request), *OAUTH_NO_STORE))

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
    from leveret.security.oidc import PendingLogin

    data = auth.sessions.signed(PURPOSE, cookie(request, COOKIE))
    return None if data is None else PendingLogin(*json.loads(data))


def _back(request: Request, why: str) -> Response:
    """The page again, which says why."""
    return Response(303, headers=(("Location", f"{HOME}?login={why}"), _cookie_line("", request), *OAUTH_NO_STORE))


def _cookie_line(value: str, request: Request) -> tuple[str, str]:
    """The cookie of a login that was begun; Lax: the provider's page leads the browser back here."""
    age_s = PENDING_S if value else 0
    secure = "; Secure" if request.peer.tls else ""
    name = cookie_name(request, COOKIE)
    return "Set-Cookie", f"{name}={value}; Path=/console/oauth; Max-Age={age_s}; HttpOnly; SameSite=Lax{secure}"


class Console:
    """Serves the page to users who can log in, and the login to every client."""

    def __init__(self, login: ConsoleLogin) -> None:
        self._assets = read_assets()
        self._router = Router(login.routes())

    def __call__(self, request: Request) -> Answered:
        if request.raw_path in OUTSIDE:
            return Response(303, headers=(("Location", HOME),))
        asset = find(self._assets, request)
        return self._router(request) if asset is None else answer(asset, request)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    body: bytes
    content_type: str
    etag: str


def read_assets() -> dict[str, Asset]:
    """Every file by its path below /console/."""
    return dict(_below(files("leveret.protocols.console") / "page", ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
        elif (suffix := entry.name.rpartition(".")[2]) in TYPES:
            body = entry.read_bytes()
            found.append(
                (prefix + entry.name, Asset(body, TYPES[suffix], f'"{blake2b(body, digest_size=8).hexdigest()}"'))
            )
    return found


def find(assets: dict[str, Asset], request: Request) -> Asset | None:
    """The file that a request asks for, if it does."""
    if request.method not in ("GET", "HEAD"):
        return None
    return assets.get(request.path.removeprefix("/console/") or PAGE)


def answer(asset: Asset, request: Request) -> Response:
    """The answer with a file; one that the browser has already is not sent again."""
    headers = (*HEADERS, ("ETag", asset.etag))
    if request.header(b"if-none-match") == asset.etag:
        return Response(304, headers=headers)
    return Response(200, asset.body, asset.content_type, headers)
