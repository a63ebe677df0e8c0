"""Where notifications may go: an address is looked at when it is connected to, whatever its name meant before.

    by TLS           anywhere but the addresses below
    without TLS      this machine only, unless the option alerts_plain_remote allows the rest
    never            link-local (which is where clouds answer with the secrets of a machine), multicast, unspecified

Redirections are not followed, no proxy is asked, and nothing of an answer but its status is told.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from leveret.core.errors import InvalidArgument
from leveret.security.peers import is_loopback

URL_CHARS_MAX = 2_000
PORT_MAX = 65_535
TLS_BY_SCHEME = {"https": True, "http": False}
DEFAULT_PORTS = {True: 443, False: 80}


class AddressRefused(OSError):
    """An address that must not be connected to."""


class WebhookEndpoint(NamedTuple):
    """What a URL says."""

    tls: bool
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        """All of it that is no secret: paths are what lets people in at chat services."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/..."


def endpoint_of(url: str) -> WebhookEndpoint:
    """A URL taken apart, or refused."""
    if len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidArgument(f"the URL of a receiver has at most {URL_CHARS_MAX} plain characters: correct it")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidArgument("the URL of a receiver cannot be read: correct it") from None
    if parts.scheme not in TLS_BY_SCHEME or not parts.hostname:
        raise InvalidArgument("the URL of a receiver begins with https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument("the URL of a receiver has no user and password: put them into its authorization")
    tls = TLS_BY_SCHEME[parts.scheme]
    path = parts.path or "/"
    return WebhookEndpoint(
        tls, parts.hostname, port or DEFAULT_PORTS[tls], f"{path}?{parts.query}" if parts.query else path
    )


def check_plain(host: str, tls: bool, plain_remote: bool) -> None:
    """Refuse a receiver that would be told in clear; names are looked at again when they are connected to."""
    if not tls and not plain_remote and host != "localhost" and not is_loopback(host):
        raise InvalidArgument(
            f"{host} would be told without TLS: use it, name this machine, or start the server with alerts_plain_remote"
        )


def allows(address: str, tls: bool, plain_remote: bool) -> bool:
    """Whether an address may be connected to."""
    found = _bare(address)
    if found.is_link_local or found.is_multicast or found.is_unspecified:
        return False
    return tls or plain_remote or found.is_loopback


def connect(host: str, port: int, timeout_s: float, tls: bool, plain_remote: bool) -> socket.socket:
    """A connection to the first address of a host that answers and may be connected to."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    allowed = [row for row in found if allows(str(row[4][0]), tls, plain_remote)]
    if not allowed:
        raise AddressRefused(f"{host} is at an address that must not be connected to: see docs/alerts.md")
    problem: OSError | None = None
    for family, kind, protocol, _, address in allowed:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(timeout_s)
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            problem = error
        else:
            return connection
    assert problem is not None
    raise problem


def _bare(address: str) -> IPv4Address | IPv6Address:
    """The address, with IPv4 in IPv6 taken out of its wrapping and without the interface."""
    found = ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
