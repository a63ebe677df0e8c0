"""Addresses as people write them and nodes tell them: host:port, an address of IPv6 in brackets."""

import re
import socket
from ipaddress import ip_address

from leveret.core.errors import InvalidArgument

ANY = "*"
NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252})")
EVERYWHERE = frozenset({"0.0.0.0", "::"})
"""What is listened on to be reached at every address of a machine; it cannot be called."""


def can_be_called(host: str) -> bool:
    """Whether this is a name or an address that another machine can call, without a port."""
    try:
        return not ip_address(host).is_unspecified
    except ValueError:
        return NAME.fullmatch(host) is not None


def with_port(host: str, port: int) -> str:
    """An address as it is written."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_and_port(address: str) -> tuple[str, int] | None:
    """The reverse; None for what is no address."""
    host, _, port = address.rpartition(":")
    return (host.removeprefix("[").removesuffix("]"), int(port)) if host and port.isdecimal() else None


def announced_host(listening: str) -> str:
    """The host that others call, if nothing else is said: the one that is listened on, or the name of the machine."""
    return socket.gethostname() if listening in EVERYWHERE else listening


def host_names(text: str | None) -> list[str]:
    """The names of the option http_hosts."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name != ANY and NAME.fullmatch(name.removeprefix("*.")) is None:
            raise InvalidArgument(f"http_hosts has names without a port, *.name or *, by commas, not {name!r}")
    return names
