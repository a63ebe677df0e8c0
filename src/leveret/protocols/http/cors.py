"""Lets pages of other origins use a server; only origins that are named get this."""

from collections.abc import Awaitable
from copy import copy

from leveret.core.errors import LeveretError
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Headers, Response
from leveret.protocols.http.server import Answer, Handler, Refuse

ANY = "*"
MAX_AGE_S = 600


def cross_origin(handler: Handler, refuse: Refuse, origins: frozenset[str]) -> Handler:
    """A handler whose answers, refusals too, say that pages of these origins may read them; none: as it was."""

    def allowed(request: Request) -> Answer | Awaitable[Answer]:
        headers = _headers(request, origins)
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


def _headers(request: Request, origins: frozenset[str]) -> Headers:
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
