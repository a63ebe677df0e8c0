"""Keeps pages of other origins from using this server through the browser of a user.

A browser sends the password that its user has typed in with every request to a server, whatever page asks for it. It
also tells which page that is: Origin with what may change something, Sec-Fetch-Site to https and to this machine.
"""

from collections.abc import Awaitable

from leveret.protocols.http.cors import ANY
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.server import Answer, Handler

HARMLESS = frozenset(("GET", "HEAD", "OPTIONS"))
OWN_SITE = frozenset((b"", b"same-origin", b"none"))  # of Sec-Fetch-Site: not a browser, our page, the user by hand
BROWSER = b"mozilla/"  # how every browser begins to name itself, and no page can change that for another site
LANGUAGE = b"accept-language"  # every browser sends it; clients that name themselves like one do not


def parse_origins(text: str | None) -> frozenset[str]:
    """The origins in an option, by commas."""
    return frozenset(each.strip() for each in (text or "").split(",") if each.strip())


def own_pages_only(handler: Handler, origins: frozenset[str]) -> Handler:
    """A handler for requests that no page of another origin has sent; such a page may look at what it can read."""

    def checked(request: Request) -> Answer | Awaitable[Answer]:
        if b"origin" in request.headers and request.method not in HARMLESS:
            origin = request.header(b"origin")
            if not (_is_own(request) or origin in origins or ANY in origins):
                raise Refusal(403, "a page of another origin may not change anything: name it in http_origins")
        return handler(request)

    return checked


def refuse_pages(request: Request, origins: frozenset[str]) -> None:
    """Refuse requests of web pages to a server that has none itself, and that changes something by GET too.

    A browser that tells neither Origin nor Sec-Fetch-Site loads an image without TLS, or is an old one.
    """
    headers = request.headers
    if b"origin" in headers:
        may = ANY in origins or request.header(b"origin") in origins
    else:
        site = headers.get(b"sec-fetch-site", b"")
        may = site in OWN_SITE and (site != b"" or LANGUAGE not in headers or not _is_browser(request))
    if not may:
        raise Refusal(403, "web pages may not use this port: name the origin of the page in http_origins")


def is_of_this_site(request: Request) -> bool:
    """Whether no page of another site made a browser send a request: for credentials that a browser adds by itself.

    Stricter than own_pages_only: it does not matter what http_origins names, since pages of other origins are to send
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
