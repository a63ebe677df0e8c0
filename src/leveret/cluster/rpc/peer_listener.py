"""The port that other nodes connect to: TLS and the handshake for each connection, with limits for strangers.

Whatever connects is a stranger until it is authenticated. Each stranger has a socket, a task and a deadline. When there
are too many, from one address or at all, the oldest is closed and the new one gets its chance: a node is authenticated
within a few round trips, so the oldest stranger is most likely none. Refusing the new one instead would let a stranger
that holds all places keep every node out.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from leveret.cluster.rpc.link import HANDSHAKE_S, PeerLink
from leveret.observability.logs import Log
from leveret.protocols.net.listener import SocketListener, bind
from leveret.security.peers import origin

if TYPE_CHECKING:
    from leveret.security.tls import MutualTls

STRANGERS_MAX = 256  # at the same time: each has a socket
STRANGERS_PER_ADDRESS_MAX = 32  # so that one machine cannot make all others wait; nodes behind one address are fewer
WARN_EVERY_S = 60.0

LOG = Log("node")


class Stranger(NamedTuple):
    """A connection that is not authenticated yet."""

    origin: str
    link: PeerLink
    task: asyncio.Task[None]

    def cancel(self) -> None:
        """Close it, in whatever state it is."""
        self.task.cancel()
        self.link.close()


class PeerListener:
    """Listens for other nodes until it is closed."""

    def __init__(self, host: str, port: int, tls: MutualTls | None, link: Callable[[], PeerLink]) -> None:
        """Listen; `link` makes the acceptor's end of a link. Raises OSError if the address cannot be had."""
        bound = bind(host, port)
        self.port = int(bound.getsockname()[1])
        self.evicted = 0
        """Strangers that were closed because there were too many."""
        self._tls = tls
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._strangers: dict[PeerLink, Stranger] = {}  # the oldest first
        self._by_origin: Counter[str] = Counter()
        self._warn_s = 0.0
        self._listener = SocketListener(bound, self._accepted)

    def __len__(self) -> int:
        return len(self._strangers)

    def close(self) -> None:
        """Listen no more; strangers go."""
        self._listener.close()
        for stranger in list(self._strangers.values()):
            stranger.cancel()

    def _accepted(self, client: socket.socket, host: str, port: int) -> None:
        """Give a connection its chance, if need be in the place of the oldest stranger."""
        address, link = origin(host), self._link()
        if self._by_origin[address] >= STRANGERS_PER_ADDRESS_MAX:
            self._evict(next(each for each in self._strangers.values() if each.origin == address))
        elif len(self._strangers) >= STRANGERS_MAX:
            self._evict(next(iter(self._strangers.values())))
        task = self._loop.create_task(self._authenticate(link, client, host))
        self._strangers[link] = Stranger(address, link, task)
        self._by_origin[address] += 1
        task.add_done_callback(lambda _: self._ended(link, client))

    def _evict(self, stranger: Stranger) -> None:
        self._forget(stranger)
        stranger.cancel()
        self.evicted += 1
        now_s = self._loop.time()
        if now_s >= self._warn_s:
            self._warn_s = now_s + WARN_EVERY_S
            advice = "let only nodes reach cluster_port"
            LOG.warning("too many strangers", peer=stranger.origin, evicted=self.evicted, advice=advice)

    def _forget(self, stranger: Stranger) -> None:
        if self._strangers.pop(stranger.link, None) is not None:
            self._by_origin[stranger.origin] -= 1
            if not self._by_origin[stranger.origin]:
                del self._by_origin[stranger.origin]

    async def _authenticate(self, link: PeerLink, client: socket.socket, host: str) -> None:
        """Wait until a stranger is a node, or gone; it has one deadline for TLS and the handshake together."""
        context = None if self._tls is None else self._tls.accepting
        timeout_s = None if context is None else HANDSHAKE_S
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await self._loop.connect_accepted_socket(
                    lambda: link, client, ssl=context, ssl_handshake_timeout=timeout_s
                )
                await link.introduced()
        except (OSError, TimeoutError) as error:
            LOG.info("stranger gone", peer=host, reason=str(error) or "it took too long")

    def _ended(self, link: PeerLink, client: socket.socket) -> None:
        """A stranger is a node now, or goes; a task that was cancelled before it began has closed nothing."""
        stranger = self._strangers.get(link)
        if stranger is not None:
            self._forget(stranger)
        if not link.is_up:
            link.close()
            client.close()
