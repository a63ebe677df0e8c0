"""Keeps pages of strangers from using the login of whoever looks at them.

A browser sends the password that its user has typed in with every request to a server, whatever page asks for it. It
also says which page that was: what changes something is taken from pages of this server and of named origins only.
"""

from collections.abc import Awaitable

from leveret.http.cors import ANY
from leveret.http.request import Refusal, Request
from leveret.http.server import Answer, Handler

HARMLESS = frozenset(("GET", "HEAD", "OPTIONS"))


def own_pages_only(handler: Handler, origins: frozenset[str]) -> Handler:
    """A handler for requests that no page of a stranger has sent."""

    def checked(request: Request) -> Answer | Awaitable[Answer]:
        if b"origin" in request.headers and request.method not in HARMLESS:
            origin = request.header(b"origin")
            own = origin.partition("://")[2] == request.header(b"host")
            if not (own or origin in origins or ANY in origins):
                raise Refusal(403, "a page of another origin may not change anything: name it in http_origins")
        return handler(request)

    return checked
