"""A socket that listens: takes clients in, a bounded number in each turn of the loop."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from leveret.observability.logs import Log
from leveret.protocols.net.proxy_protocol import Accepted, Proxies, ProxyProtocol

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
