"""The names that a server answers to without TLS, by the header Host.

DNS rebinding: the name of an attacker's page first leads to the attacker, then to this machine. The browser takes this
server for the page's own one: the page may send it requests and read the answers, from inside of the network and, on
the machine of the server, with the rights of loopback. The browser sends the name, so a name that is not the server's
is refused with 421. Addresses cannot be rebound, and with TLS the certificate does not fit.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address

from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.net.addresses import ANY, NAME

LOCALHOST = "localhost"  # and what ends with it: no name server gives it away
HOST_BYTES_MAX = 270  # a name, brackets and a port
KEPT_MAX = 1_000  # decisions: clients send the same few names again and again


class Hosts:
    """Decides whether a request is meant for this server."""

    def __init__(self, names: Iterable[str], *, undotted: bool = False) -> None:
        """Answer to names, to all below "*.name", or to any ("*"); `undotted`: also to names without a dot."""
        known = {name.lower().rstrip(".") for name in names}
        self._any = ANY in known
        self._names = frozenset(known | {LOCALHOST, ""})
        self._suffixes = (f".{LOCALHOST}", *(name[1:] for name in known if name.startswith("*.")))
        self._undotted = undotted
        self._accepts = lru_cache(maxsize=KEPT_MAX)(self.accepts)

    def check(self, request: Request) -> None:
        """Refuse a request that names another server."""
        if request.peer.tls:
            return
        host = request.headers.get(b"host", b"")
        if len(host) > HOST_BYTES_MAX or not self._accepts(host):
            name = host[:HOST_BYTES_MAX].decode("latin-1")
            raise Refusal(
                421, f"this server does not answer to the name {name!r}: add it to http_hosts, or use an address"
            )

    def accepts(self, host: bytes) -> bool:
        """Whether the value of a header Host is an address, or one of the names."""
        text = host.decode("latin-1").lower()
        if text.startswith("["):
            return _is_address(text[1:].partition("]")[0])
        name = text.partition(":")[0]
        return self._any or self.has_name(name.removesuffix(".")) or _is_address(name)

    def has_name(self, name: str) -> bool:
        """Whether a name is one of the server's."""
        if name in self._names or name.endswith(self._suffixes):
            return True
        return self._undotted and "." not in name and NAME.fullmatch(name) is not None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
