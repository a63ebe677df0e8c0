"""The servers that a client may ask: one, or nodes of one cluster, any of which will do.

One is asked until it fails: until it cannot be reached, gives no answer, or says that it cannot answer now. Then the
next one is, after the last the first again.
"""

import ssl
from collections.abc import Callable

from leveret.client.address import Address, address_of
from leveret.core.errors import InvalidArgument

SERVERS_MAX = 64
"""Each is tried in turn: with more of them a client that finds none would notice too late."""
UNABLE = frozenset((502, 503))
"""What a server answers that is stopped, has lost the others of its cluster, or waits for a shard."""

Request = Callable[[Address], bytes]
"""A request as bytes, for the server that is asked."""


class Servers:
    """Where they are, and which one is asked now; for any number of threads."""

    def __init__(self, addresses: list[Address]) -> None:
        """Ask the first one."""
        self._addresses = addresses
        self._current = 0

    @property
    def current(self) -> Address:
        """The one to ask."""
        return self._addresses[self._current]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._addresses)

    def failed(self, address: Address) -> None:
        """Ask another one from now on, unless that is so already."""
        position = self._current
        if self._addresses[position] is address:
            self._current = (position + 1) % len(self._addresses)

    def __repr__(self) -> str:
        """Where they are, without what is secret."""
        return ",".join(map(repr, self._addresses))


def servers_of(url: str, token: str | None, tls: ssl.SSLContext | None, vhost: str | None = None) -> Servers:
    """The servers that URLs name, which are separated by commas."""
    urls = [each.strip() for each in url.split(",")]
    if len(urls) > SERVERS_MAX:
        raise InvalidArgument(f"{len(urls)} servers are too many: name {SERVERS_MAX} at most, or a load balancer")
    return Servers([address_of(each, token, tls, vhost) for each in urls])
