"""Sockets that listen: take clients in, a bounded number in each turn of the loop; and a server of such."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from leveret.observability.logs import Log
from leveret.protocols.net.admission import ConnectionBudget, Slot
from leveret.protocols.net.proxy_protocol import Accepted, Proxies, ProxyProtocol
from leveret.security.tls import ServerTls

BACKLOG = 1_024
ACCEPTS_PER_TURN = 64  # a flood of new clients does not stop the traffic of those that are here
RETRY_S = 1.0
ROOM_S = 0.01  # until the descriptors of connections that were closed to make room are free
ROOM_COUNT = 8  # connections that are closed at once
EXHAUSTED = (errno.EMFILE, errno.ENFILE)
# What is wrong with the one client, and what the next one need not suffer from.
GONE = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM)
# Accepted sockets have the options of the one that listens. A peer whose machine is gone is noticed within two minutes.
OPTIONS = {
    (socket.SOL_SOCKET, socket.SO_REUSEADDR): 1,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 60,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 15,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 4,
    (socket.IPPROTO_TCP, socket.TCP_NODELAY): 1,
}

LOG = Log("net")


def bind(host: str, port: int) -> socket.socket:
    """A socket with an address; it does not listen yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        for (level, name), value in OPTIONS.items():
            bound.setsockopt(level, name, value)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


class SocketListener:
    """Accepts without the loop: a connection over the limit is closed before TLS costs anything."""

    def __init__(
        self,
        bound: socket.socket,
        accepted: Accepted,
        make_room: Callable[[], bool] = lambda: False,
        proxies: Proxies | None = None,
    ) -> None:
        """Listen on a bound socket; `accepted` is called with each client's socket and address.

        `make_room` closes another connection when no file descriptor is left; False when none can be spared. With
        `proxies`, each connection begins with a header that tells the address.
        """
        self._loop = asyncio.get_running_loop()
        self._socket = bound
        self._proxy = None if proxies is None else ProxyProtocol(proxies, accepted)
        self._accepted = accepted if self._proxy is None else self._proxy.accept
        self._make_room = make_room
        self._trouble = LOG.limited("cannot accept", logging.ERROR)
        self._retry: asyncio.TimerHandle | None = None
        bound.setblocking(False)
        bound.listen(BACKLOG)
        self._loop.add_reader(bound, self._readable)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        if self._retry is not None:
            self._retry.cancel()
        if self._proxy is not None:
            self._proxy.close()
        self._socket.close()

    def _readable(self) -> None:
        """Take in those who wait."""
        for _ in range(ACCEPTS_PER_TURN):
            try:
                client, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in GONE:
                    self._pause(error)
                    return
            else:
                client.setblocking(False)
                self._accepted(client, *address[:2])

    def _pause(self, error: OSError) -> None:
        """Try again later: the reason, mostly too many open files, does not go away by asking all the time."""
        self._trouble.note(reason=error, advice="raise the limit on open files, or lower connections_max")
        self._loop.remove_reader(self._socket)
        room = [self._make_room() for _ in range(ROOM_COUNT)] if error.errno in EXHAUSTED else []
        again_s = ROOM_S if any(room) else RETRY_S
        self._retry = self._loop.call_later(again_s, self._loop.add_reader, self._socket, self._readable)


class AcceptedClient(Protocol):
    """A client that was let in: what the loop tells of its socket."""

    @property
    def slot(self) -> Slot: ...
    @property
    def peer(self) -> object: ...  # as logs name it
    @property
    def opened(self) -> bool: ...  # whether the socket was there, and TLS was agreed upon
    def abort(self) -> None: ...
    def give_up(self) -> None: ...  # let go of its place; once is enough


C = TypeVar("C", bound=AcceptedClient)


class SocketServer(Generic[C]):
    """Listeners, and the clients that they let in, in the running loop."""

    draining = False

    def __init__(
        self,
        admission: ConnectionBudget,
        log: Log,
        make: Callable[[str, int, Slot, ServerTls | None], C],
        handshake_s: Callable[[C], float],
    ) -> None:
        """`make` makes the protocol of a client that has a slot, `handshake_s` limits the time of TLS."""
        self._loop = asyncio.get_running_loop()
        self.admission = admission
        self.clients: dict[C, asyncio.Task[None]] = {}
        self._make, self._handshake_s = make, handshake_s
        self._handshake_failed = log.limited("tls handshake failed", logging.INFO)
        self._listeners: list[SocketListener] = []
        self._idle = asyncio.Event()
        self._idle.set()

    def listen(self, bound: socket.socket, tls: ServerTls | None = None, proxies: Proxies | None = None) -> None:
        """Accept connections; by TLS if it is given, from load balancers if these are given."""
        self._listeners.append(SocketListener(bound, partial(self._accepted, tls), self.admission.make_room, proxies))

    def stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _accepted(self, tls: ServerTls | None, client: socket.socket, host: str, port: int) -> None:
        """Let a client in, or send it away."""
        slot = None if self.draining else self.admission.enter(host, port)
        if slot is None:
            client.close()
            return
        self._idle.clear()
        accepted = self._make(host, port, slot, tls)
        slot.evict = partial(self.close, accepted)
        opening = self._loop.create_task(self._open(accepted, client, tls.context if tls else None))
        opening.add_done_callback(partial(self._opened, accepted, client))
        self.clients[accepted] = opening

    async def _open(self, accepted: C, client: socket.socket, context: ssl.SSLContext | None) -> None:
        timeout_s = self._handshake_s(accepted) if context else None
        protocol = cast("asyncio.BaseProtocol", accepted)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol, client, ssl=context, ssl_handshake_timeout=timeout_s
            )
        except (OSError, TimeoutError) as error:
            self._handshake_failed.note(peer=accepted.peer, reason=str(error) or "it took too long")

    def _opened(self, accepted: C, client: socket.socket, opening: asyncio.Task[None]) -> None:
        """A socket is open or never will be, perhaps because it was closed before its turn came.

        If that was while the loop opened it, the loop gives up its transport and does not report it.
        """
        if opening.cancelled() or not accepted.opened:
            accepted.abort()
            client.close()
            accepted.give_up()

    def close(self, accepted: C) -> None:
        """Close a connection at once, also one that is not open yet."""
        self.clients[accepted].cancel()
        accepted.abort()

    def leave(self, closed: C) -> None:
        closed.slot.leave()
        if self.clients.pop(closed, None) is not None and not self.clients:
            self._idle.set()
