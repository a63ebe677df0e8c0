"""The handler of / and of everything under /console/: the files of the page, and its login."""

from collections.abc import Awaitable
from dataclasses import dataclass
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable

from leveret.protocols.console.login import ConsoleLogin
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response, page_headers
from leveret.protocols.http.router import Answer, Router

HOME = "/console/"
OUTSIDE = (b"/", b"/console")
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
