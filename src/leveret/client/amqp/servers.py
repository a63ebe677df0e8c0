"""The servers that an amqp URL names, and when the next one is tried.

    amqp://user:password@first:5672,second/vhost          amqps:// for TLS

All of them are nodes of one cluster, any of which will do. A connection that is lost is made again to the next one,
after a pause that doubles from attempt to attempt.
"""

import random
import ssl
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from leveret.client.servers import SERVERS_MAX
from leveret.core.errors import InvalidArgument, LeveretError

PORTS = {"amqp": 5672, "amqps": 5671}
USER = "guest"
BASE_S = 0.05
DELAY_S_MAX = 5.0
FORM = "amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST"


class AmqpServer(NamedTuple):
    """One server, and who logs in to it."""

    host: str
    port: int
    user: str
    password: str
    vhost: str
    tls: ssl.SSLContext | None

    def __repr__(self) -> str:
        return f"{'amqp' if self.tls is None else 'amqps'}://{self.host}:{self.port}"


def servers_of(url: str, token: str | None, tls: ssl.SSLContext | None, vhost: str | None) -> list[AmqpServer]:
    """The servers that a URL names, or several URLs that are separated by commas."""
    found: list[AmqpServer] = []
    for each in url.replace(",amqp", "\namqp").split("\n"):
        found += _servers(each.strip(), token, tls, vhost)
    if len(found) > SERVERS_MAX:
        raise InvalidArgument(f"{len(found)} servers are too many: name {SERVERS_MAX} at most, or a load balancer")
    return found


def _servers(url: str, token: str | None, tls: ssl.SSLContext | None, vhost: str | None) -> list[AmqpServer]:
    scheme, _, rest = url.partition("://")
    where, slash, path = rest.partition("/")
    if scheme not in PORTS or "/" in path:
        raise InvalidArgument(f"AMQP servers are at {FORM} (a / in VHOST is %2F), not {rest.rpartition('@')[2]!r}")
    if "?" in rest or "#" in rest:
        raise InvalidArgument("the URL of an AMQP server has no query: give heartbeat=..., timeout=... and so on")
    who, _, hosts = where.rpartition("@")
    user, _, password = who.partition(":")
    name = vhost if vhost is not None else unquote(path) if slash and path else "/"
    context = (tls or ssl.create_default_context()) if scheme == "amqps" else None
    secret = token if token is not None else unquote(password) if who else USER
    return [
        AmqpServer(*_address(host, PORTS[scheme]), unquote(user) or USER, secret, name, context)
        for host in hosts.split(",")
    ]


def _address(host: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{host.strip()}")
        found = parts.hostname, parts.port or port
    except ValueError:
        found = None, port
    if not found[0]:
        raise InvalidArgument(f"AMQP servers are at {FORM}: {host!r} is no HOST:PORT")
    return found[0], found[1]


class ReconnectPlan:
    """Which server is tried next, and when."""

    def __init__(self, servers: list[AmqpServer], retries: int) -> None:
        self.servers = servers
        self._retries = retries
        self._place = self._failed = 0
        self.error: LeveretError | None = None
        """Why the last attempt failed."""

    @property
    def server(self) -> AmqpServer:
        """The one to connect to."""
        return self.servers[self._place]

    @property
    def delay_s(self) -> float:
        """How long to wait before; not the same for all clients that lost the same server. Others are tried at once."""
        rounds = self._failed // len(self.servers)
        return min(BASE_S * 2 ** min(rounds, 10), DELAY_S_MAX) * random.uniform(0.5, 1.5) if rounds else 0.0

    @property
    def hopeless(self) -> bool:
        """Whether so many attempts have failed that calls fail, too."""
        return self._failed > max(self._retries, len(self.servers) - 1)

    def failed(self, error: LeveretError) -> None:
        """Try the next one."""
        self.error = error
        self._failed += 1
        self._place = (self._place + 1) % len(self.servers)

    def succeeded(self) -> None:
        """Stay with this one."""
        self._failed = 0
        self.error = None
