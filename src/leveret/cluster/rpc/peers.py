"""The other nodes of a cluster, and the links to them: of two nodes the one with the lower name calls.

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
from typing import TYPE_CHECKING, NamedTuple, Protocol

from leveret.cluster.rpc.link import HANDSHAKE_S, PeerLink
from leveret.observability.logs import Log
from leveret.protocols.net.listener import SocketListener, bind
from leveret.security.peers import is_loopback, origin

if TYPE_CHECKING:
    from leveret.security.tls import MutualTls

STRANGERS_MAX = 256  # at the same time: each has a socket
STRANGERS_PER_ADDRESS_MAX = 32  # so that one machine cannot make all others wait; nodes behind one address are fewer
WARN_EVERY_S = 60.0


class Stranger(NamedTuple):
    """A connection that is not authenticated yet."""

    origin: str
    link: PeerLink
    task: asyncio.Task[None]

    def cancel(self) -> None:
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


DIAL_S = 2.0
PAUSE_S, PAUSE_S_MAX = 0.1, 1.0  # before a node is called again that could not be reached, the first time and later
REFUSED = "it refuses connections"
LATE = f"it has not taken a connection for {DIAL_S:g} s"
NO_ADDRESS = "its address is unknown"
NO_TLS = "it is on another machine, and there is no TLS"
NEVER = "it has never been reached"

LOG = Log("node")


class Owners(Protocol):
    """Who has which shard."""

    def owner_of(self, shard_id: str) -> str | None:
        """The node that serves a shard; None: no node does now."""

    def address_of(self, node: str) -> tuple[str, int] | None:
        """Where a node can be reached by others; None: it is not there."""

    def nodes(self) -> list[str]:
        """Who is there."""


class Peers:
    """Those of one node."""

    def __init__(self, name: str, owners: Owners, link: Callable[[str | None], PeerLink]) -> None:
        """`link` makes one end of a link: of the caller of a node of that name, or of the node that is called."""
        self.links: dict[str, PeerLink] = {}
        self.tls: MutualTls | None = None
        """What links are encrypted with; None: they are not, and lead to this machine only."""
        self.plain_remote = False
        """Whether they may lead elsewhere nevertheless."""
        self._name = name
        self._owners = owners
        self._link = link
        self._ended: Counter[tuple[str, str]] = Counter()
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._failures: Counter[str] = Counter()
        self._whys: dict[str, str] = {}
        """What was last in the way of those that are not reached."""
        self._loop = asyncio.get_running_loop()
        self.listener: PeerListener | None = None

    # Coming and going

    def listen(self, host: str, port: int) -> int:
        """Listen for other nodes; gives the port."""
        self.listener = PeerListener(host, port, self.tls, lambda: self._link(None))
        return self.listener.port

    async def leave(self) -> None:
        calls = list(self._calls.values())
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def close_revoked(self) -> None:
        """Close the links to nodes whose certificates are revoked."""
        crl = None if self.tls is None else self.tls.crl
        for link in list(self.links.values()):
            certificate = link.certificate
            if crl is not None and certificate is not None and crl.revokes(certificate):
                LOG.warning("link closed", peer=link.peer, reason="the certificate of the node is revoked")
                link.close()

    def hang_up(self) -> None:
        if self.listener is not None:
            self.listener.close()
        for link in self.links.values():
            link.close()

    # Calling

    def look(self) -> None:
        """Call the nodes that are there and not reached."""
        present = self._owners.nodes()
        for name in present:
            if self._name < name and name not in self.links and name not in self._calls:
                self._calls[name] = self._loop.create_task(self._call(name))
        for known in (self._failures, self._whys):
            for gone in known.keys() - set(present):
                del known[gone]

    async def _call(self, name: str) -> None:
        """Call a node; when it cannot be reached, or refuses, let some time pass before the next call."""
        try:
            why = await self._reach(name)
            if why is None:
                del self._failures[name]
            else:
                self._whys[name] = why
                self._failures[name] += 1
                await asyncio.sleep(min(PAUSE_S * 2 ** self._failures[name], PAUSE_S_MAX))
        finally:
            del self._calls[name]

    async def _reach(self, name: str) -> str | None:
        """Why a node has not let us in; None: it has."""
        address = self._owners.address_of(name)
        if address is None:
            return NO_ADDRESS
        if not self._may_call(address[0]):
            return NO_TLS
        calling = None if self.tls is None else self.tls.calling
        try:
            async with asyncio.timeout(DIAL_S):
                _, link = await self._loop.create_connection(lambda: self._link(name), *address, ssl=calling)
        except OSError as error:
            why = REFUSED if isinstance(error, ConnectionRefusedError) else str(error) or LATE
            LOG.info("node not reached", node=name, reason=why)
            return why
        try:
            return None if await link.introduced() else link.why_down
        except BaseException:
            link.close()
            raise

    def why_down(self, name: str) -> str:
        return self._whys.get(name, NEVER)

    def _may_call(self, host: str) -> bool:
        """Whether what is said to a host cannot be read on the way, or may be."""
        if self.tls is not None or self.plain_remote or is_loopback(host):
            return True
        LOG.warning("node not called", host=host, reason="no TLS", advice="give cluster_tls_cert, or cluster_plain")
        return False

    # What links tell

    def up(self, link: PeerLink) -> None:
        """Another node is reached; of two links to it the later one is used."""
        previous = self.links.get(link.peer)
        self.links[link.peer] = link
        if previous is not None:
            previous.close()
        self._loop.call_soon(self.close_revoked)  # its handshake may have begun before a list was there

    def down(self, link: PeerLink) -> None:
        if self.links.get(link.peer) is link:
            del self.links[link.peer]
            self._whys[link.peer] = link.why_down
        self._ended.update(_bytes_of(link))

    def bytes(self) -> Counter[tuple[str, str]]:
        """What has passed between this node and each other one, by direction."""
        found = Counter(self._ended)
        for link in self.links.values():
            found.update(_bytes_of(link))
        return found


def _bytes_of(link: PeerLink) -> dict[tuple[str, str], int]:
    """What has passed on a link."""
    return {(link.peer, "received"): link.received_bytes, (link.peer, "sent"): link.sent_bytes}
