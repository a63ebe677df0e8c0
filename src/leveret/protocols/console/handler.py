"""The handler of / and of everything under /console/: the files of the page, and its login."""

from collections.abc import Awaitable

from leveret.protocols.console.assets import answer, find, read_assets
from leveret.protocols.console.login import ConsoleLogin
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.http.router import Answer, Router

HOME = "/console/"
OUTSIDE = (b"/", b"/console")


class Console:
    """Serves the page to users who can log in, and the login to every client."""

    def __init__(self, login: ConsoleLogin) -> None:
        self._assets = read_assets()
        self._router = Router(login.routes())

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        if request.raw_path in OUTSIDE:
            return Response(303, headers=(("Location", HOME),))
        asset = find(self._assets, request)
        return self._router(request) if asset is None else answer(asset, request)


def owns(request: Request) -> bool:
    """Whether a path is one of the console."""
    return request.raw_path in OUTSIDE or request.raw_path.startswith(b"/console/")
