"""Keeps pages of other origins from using this server through the browser of a user.

A browser sends the password that its user has typed in with every request to a server, whatever page asks for it. It
also tells which page that is: Origin with what may change something, Sec-Fetch-Site to https and to this machine.

DNS rebinding: the name of an attacker's page first leads to the attacker, then to this machine. The browser takes this
server for the page's own one: the page may send it requests and read the answers, from inside of the network and, on
the machine of the server, with the rights of loopback. The browser sends the name, so a name that is not the server's
is refused with 421. Addresses cannot be rebound, and with TLS the certificate does not fit.
"""

from collections.abc import Awaitable, Iterable
from copy import copy
from functools import lru_cache
from ipaddress import ip_address

from leveret.core.errors import LeveretError
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answer, Answered, Headers, Response
from leveret.protocols.http.server import Handler, Refuse
from leveret.protocols.net.addresses import ANY, NAME

LOCALHOST = "localhost"  # and what ends with it: no name server gives it away
HOST_BYTES_MAX = 270  # a name, brackets and a port
KEPT_MAX = 1_000  # decisions: clients send the same few names again and again
MAX_AGE_S = 600
HARMLESS = frozenset(("GET", "HEAD", "OPTIONS"))
OWN_SITE = frozenset((b"", b"same-origin", b"none"))  # of Sec-Fetch-Site: not a browser, our page, the user by hand
BROWSER = b"mozilla/"  # how every browser begins to name itself, and no page can change that for another site
LANGUAGE = b"accept-language"  # every browser sends it; clients that name themselves like one do not


class Hosts:
    """Decides whether a request is meant for this server, and may come from the page that it comes from."""

    def __init__(self, names: Iterable[str], origins: str | None = None, *, undotted: bool = False) -> None:
        """Answer to names, to all below "*.name", or to any ("*"); `undotted`: also to names without a dot.

        `origins`, by commas, are those of pages that may use this server beside its own.
        """
        self.origins = frozenset(each.strip() for each in (origins or "").split(",") if each.strip())
        known = {name.lower().rstrip(".") for name in names}
        self._any = ANY in known
        self._names = frozenset(known | {LOCALHOST, ""})
        self._suffixes = (f".{LOCALHOST}", *(name[1:] for name in known if name.startswith("*.")))
        self._undotted = undotted
        self._accepts = lru_cache(maxsize=KEPT_MAX)(self.accepts)

    def check(self, request: Request) -> None:
        if request.peer.tls:
            return
        host = request.headers.get(b"host", b"")
        if len(host) > HOST_BYTES_MAX or not self._accepts(host):
            name = host[:HOST_BYTES_MAX].decode("latin-1")
            raise Refusal(
                421, f"this server does not answer to the name {name!r}: add it to http_hosts, or use an address"
            )

    def accepts(self, host: bytes) -> bool:
        """Whether the value of a header Host is an address, or one of the names."""
        text = host.decode("latin-1").lower()
        if text.startswith("["):
            return _is_address(text[1:].partition("]")[0])
        name = text.partition(":")[0]
        return self._any or self.has_name(name.removesuffix(".")) or _is_address(name)

    def has_name(self, name: str) -> bool:
        if name in self._names or name.endswith(self._suffixes):
            return True
        return self._undotted and "." not in name and NAME.fullmatch(name) is not None

    def check_page(self, request: Request) -> None:
        """Refuse what a page of another origin has sent; such a page may look at what it can read."""
        if request.method not in HARMLESS and not (_is_own(request) or self._is_allowed(request)):
            raise Refusal(403, "a page of another origin may not change anything: name it in http_origins")

    def check_sender(self, request: Request) -> None:
        """Refuse requests for others, and those of web pages to a server that changes something by GET too.

        A browser that tells neither Origin nor Sec-Fetch-Site loads an image without TLS, or is an old one.
        """
        self.check(request)
        headers = request.headers
        if b"origin" in headers:
            may = self._is_allowed(request)
        else:
            site = headers.get(b"sec-fetch-site", b"")
            may = site in OWN_SITE and (site != b"" or LANGUAGE not in headers or not _is_browser(request))
        if not may:
            raise Refusal(403, "web pages may not use this port: name the origin of the page in http_origins")

    def _is_allowed(self, request: Request) -> bool:
        return ANY in self.origins or request.header(b"origin") in self.origins


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def cross_origin(handler: Handler, refuse: Refuse, origins: frozenset[str]) -> Handler:
    """A handler whose answers, refusals too, say that pages of these origins may read them; none: as it was."""

    def allowed(request: Request) -> Answered:
        headers = _cors_headers(request, origins)
        if not headers:
            return handler(request)
        if request.method == "OPTIONS" and b"access-control-request-method" in request.headers:
            return Response(204, headers=(*headers, *_preflight(request)))
        try:
            answer = handler(request)
        except LeveretError as error:
            return _with(refuse(error), headers)
        return later(answer, headers) if isinstance(answer, Awaitable) else _with(answer, headers)

    async def later(answer: Awaitable[Answer], headers: Headers) -> Answer:
        try:
            return _with(await answer, headers)
        except LeveretError as error:
            return _with(refuse(error), headers)

    return allowed if origins else handler


def _cors_headers(request: Request, origins: frozenset[str]) -> Headers:
    """What an answer says to a page that may read it; nothing to others."""
    origin = request.header(b"origin")
    if not origin or not (origin in origins or ANY in origins):
        return ()
    return (("Access-Control-Allow-Origin", origin), ("Vary", "Origin"))


def _preflight(request: Request) -> Headers:
    """What a page may send."""
    return (
        ("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        ("Access-Control-Allow-Headers", request.header(b"access-control-request-headers") or ANY),
        ("Access-Control-Max-Age", str(MAX_AGE_S)),
    )


def _with(answer: Answer, headers: Headers) -> Answer:
    """The answer with more headers; the one that was given may be used for others as well."""
    extended = copy(answer)
    extended.headers = (*answer.headers, *headers)
    return extended


def is_of_this_site(request: Request) -> bool:
    """Whether no page of another site made a browser send a request: for credentials that browsers add themselves.

    Stricter than Hosts.check_page: it does not matter what http_origins names, since pages of other origins are to send
    tokens; reading counts as well; and a browser that does not say which page asks may not change anything.
    """
    if request.headers.get(b"sec-fetch-site", b"") not in OWN_SITE:
        return False
    if b"origin" in request.headers:
        return _is_own(request)
    return request.method in HARMLESS or not _is_browser(request)


def _is_browser(request: Request) -> bool:
    return request.headers.get(b"user-agent", b"").lower().startswith(BROWSER)


def _is_own(request: Request) -> bool:
    """Whether the page that asks was loaded from the address that it asks."""
    return request.header(b"origin").partition("://")[2] == request.header(b"host") != ""
