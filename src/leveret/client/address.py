"""Where a server is, and who asks."""

import ssl
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from leveret.core.errors import InvalidArgument

PORTS = {"http": 15672, "https": 15671}


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
