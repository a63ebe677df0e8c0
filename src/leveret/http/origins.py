"""Keeps pages of strangers from using the login of whoever looks at them.

A browser sends the password that its user has typed in with every request to a server, whatever page asks for it. It
also says which page that was: what changes something is taken from pages of this server and of named origins only.
"""

from collections.abc import Awaitable

from leveret.http.cors import ANY
from leveret.http.request import Refusal, Request
from leveret.http.server import Answer, Handler

HARMLESS = frozenset(("GET", "HEAD", "OPTIONS"))
OWN_SITE = frozenset((b"", b"same-origin", b"none"))  # of Sec-Fetch-Site: not a browser, our page, the user by hand
BROWSER = b"mozilla/"  # how every browser begins to name itself, and no page can change that for another site


def own_pages_only(handler: Handler, origins: frozenset[str]) -> Handler:
    """A handler for requests that no page of a stranger has sent."""

    def checked(request: Request) -> Answer | Awaitable[Answer]:
        if b"origin" in request.headers and request.method not in HARMLESS:
            origin = request.header(b"origin")
            if not (_is_own(request) or origin in origins or ANY in origins):
                raise Refusal(403, "a page of another origin may not change anything: name it in http_origins")
        return handler(request)

    return checked


def is_of_this_site(request: Request) -> bool:
    """Whether no page of another site made a browser send a request: for credentials that a browser adds by itself.

    Stricter than own_pages_only: it does not matter what http_origins names, since pages of other origins are to send
    tokens; reading counts as well; and a browser that does not say which page asks may not change anything.
    """
    if request.headers.get(b"sec-fetch-site", b"") not in OWN_SITE:
        return False
    if b"origin" in request.headers:
        return _is_own(request)
    return request.method in HARMLESS or not request.headers.get(b"user-agent", b"").lower().startswith(BROWSER)


def _is_own(request: Request) -> bool:
    """Whether the page that asks was loaded from the address that it asks."""
    return request.header(b"origin").partition("://")[2] == request.header(b"host") != ""
