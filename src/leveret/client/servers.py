"""The servers that a client may ask: one, or nodes of one cluster, any of which will do.

One is asked until it fails: until it cannot be reached, gives no answer, or says that it cannot answer now. Then the
next one is, after the last the first again. One of several that says nothing for a while is asked for a sign of life
on another connection: a request may take its time, but if there is none, the server hangs.
"""

import json
import ssl
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from leveret.core.errors import InvalidArgument

PORTS = {"http": 15672, "https": 15671}
SERVERS_MAX = 64
"""Each is tried in turn: with more of them a client that finds none would notice too late."""
UNABLE = frozenset((502, 503))
"""What a server answers that is stopped, has lost the others of its cluster, or waits for a shard."""

_dumps = json.JSONEncoder(separators=(",", ":")).encode

CONNECT_S = 10.0
SILENT_S = 2.0
"""How long one of several may say nothing before it is asked for a sign of life; then twice as long, and so on."""
PROBE_S = 3.0
"""How long a sign of life, or a connection to one of several, may take."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server; `head` are the lines that each request to it begins with."""

    host: str
    port: int
    base: str
    head: str
    tls: ssl.SSLContext | None = None
    vhost: str | None = None

    def target(self, path: str) -> str:
        """What a request for a path asks for."""
        if self.vhost is None:
            return self.base + path
        return f"{self.base}{path}{'&' if '?' in path else '?'}vhost={quote(self.vhost, safe='')}"

    def __repr__(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.host}:{self.port}{self.base}"


def address_of(url: str, token: str | None, tls: ssl.SSLContext | None, vhost: str | None = None) -> Address:
    """The address that a URL names; a user and a password may be in it."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        port = None
    if not port or parts.scheme not in PORTS or not parts.hostname:
        raise InvalidArgument(f"a server is at http://HOST:PORT or https://HOST:PORT, not {url.rpartition('@')[2]!r}")
    if parts.query or parts.fragment:
        raise InvalidArgument("the URL of a server has no query: give the token by token=...")
    authorization = _authorization(token, parts.username, parts.password)
    if any(char in authorization for char in "\r\n"):
        raise InvalidArgument("the token has a line break in it: leave it out")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    head = f"Host: {host}:{port}\r\nUser-Agent: leveret-python\r\n{authorization and authorization + chr(13) + chr(10)}"
    context = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
    return Address(parts.hostname, port, parts.path.rstrip("/"), head, context, vhost)


def _authorization(token: str | None, user: str | None, password: str | None) -> str:
    if token is not None:
        return f"Authorization: Bearer {token}"
    if user is None:
        return ""
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return f"Authorization: Basic {b64encode(pair.encode()).decode()}"


Request = Callable[[Address], bytes]
"""A request as bytes, for the server that is asked."""


class ServerList:
    """Where they are, and which one is asked now; for any number of threads."""

    def __init__(self, addresses: list[Address]) -> None:
        self._addresses = addresses
        self._current = 0

    @property
    def current(self) -> Address:
        """The one to ask."""
        return self._addresses[self._current]

    @property
    def connect_s(self) -> float:
        """How long a connection to one may take."""
        return PROBE_S if len(self._addresses) > 1 else CONNECT_S

    def silent_s(self, repeatable: bool) -> float | None:
        """How long to wait before a sign of life is asked for; None: there is no other server to ask."""
        return SILENT_S if repeatable and len(self._addresses) > 1 else None

    def __len__(self) -> int:
        return len(self._addresses)

    def failed(self, address: Address) -> None:
        """Ask another one from now on, unless that is so already."""
        position = self._current
        if self._addresses[position] is address:
            self._current = (position + 1) % len(self._addresses)

    def __repr__(self) -> str:
        return ",".join(map(repr, self._addresses))


def request_bytes(method: str, path: str, head: str, body: Any, key: str | None) -> bytes:
    """A request; `head` are the lines that all requests of a client have. Bytes are sent as they are."""
    is_bytes = isinstance(body, bytes)
    data = body if is_bytes else b"" if body is None else _dumps(body).encode()
    lines = f"{method} {path} HTTP/1.1\r\n{head}"
    if key is not None:
        lines += f"Idempotency-Key: {key}\r\n"
    if data or method in ("POST", "PUT", "PATCH"):
        kind = "octet-stream" if is_bytes else "json"
        lines += f"Content-Type: application/{kind}\r\nContent-Length: {len(data)}\r\n"
    return f"{lines}\r\n".encode() + data


def probe(address: Address) -> bytes:
    """The request for a sign of life; whatever is answered is one."""
    return request_bytes("GET", f"{address.base}/health/live", address.head, None, None)


def servers_of(url: str, token: str | None, tls: ssl.SSLContext | None, vhost: str | None = None) -> ServerList:
    """The servers that URLs name, which are separated by commas."""
    urls = [each.strip() for each in url.split(",")]
    if len(urls) > SERVERS_MAX:
        raise InvalidArgument(f"{len(urls)} servers are too many: name {SERVERS_MAX} at most, or a load balancer")
    return ServerList([address_of(each, token, tls, vhost) for each in urls])
