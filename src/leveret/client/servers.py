"""The servers that a client may ask: one, or nodes of one cluster, any of which will do.

One is asked until it fails: until it cannot be reached, gives no answer, or says that it cannot answer now. Then the
next one is, after the last the first again. One of several that says nothing for a while is asked for a sign of life
on another connection: a request may take its time, but if there is none, the server hangs.
"""

import ssl
from collections.abc import Callable

from leveret.client.address import Address, address_of
from leveret.client.wire import request_bytes
from leveret.core.errors import InvalidArgument

SERVERS_MAX = 64
"""Each is tried in turn: with more of them a client that finds none would notice too late."""
UNABLE = frozenset((502, 503))
"""What a server answers that is stopped, has lost the others of its cluster, or waits for a shard."""

CONNECT_S = 10.0
SILENT_S = 2.0
"""How long one of several may say nothing before it is asked for a sign of life; then twice as long, and so on."""
PROBE_S = 3.0
"""How long a sign of life, or a connection to one of several, may take."""

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


def probe(address: Address) -> bytes:
    """The request for a sign of life; whatever is answered is one."""
    return request_bytes("GET", f"{address.base}/health/live", address.head, None, None)


def servers_of(url: str, token: str | None, tls: ssl.SSLContext | None, vhost: str | None = None) -> ServerList:
    """The servers that URLs name, which are separated by commas."""
    urls = [each.strip() for each in url.split(",")]
    if len(urls) > SERVERS_MAX:
        raise InvalidArgument(f"{len(urls)} servers are too many: name {SERVERS_MAX} at most, or a load balancer")
    return ServerList([address_of(each, token, tls, vhost) for each in urls])
