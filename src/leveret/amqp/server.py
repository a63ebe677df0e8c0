"""Sockets: bytes from them to connections and back. Whatever the bytes mean is decided elsewhere.

    accept -> [TLS] -> Connection           one that is one too many is closed at once
    readable -> hub.receive                 all sockets share one buffer: what is read is copied before the next read
    outbox   -> one write for each socket   once per turn of the loop
    every second: heartbeats, time limits
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from leveret.amqp.admission import Admission
from leveret.amqp.connection import Connection, Peer
from leveret.security.tls import certificate_name
from leveret.telemetry.logs import Log

if TYPE_CHECKING:
    from leveret.amqp.hub import Hub

READ_BYTES = 262_144
BACKLOG = 1_024
SWEEP_S = 1.0
OUTPUT_BYTES_HIGH = 1 << 20  # what waits in the buffer of a socket before its consumers get no more
KEEPALIVE = {
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 60,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 15,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 4,
    (socket.IPPROTO_TCP, socket.TCP_NODELAY): 1,
}

Context = Callable[[], ssl.SSLContext]
LOG = Log("amqp")


def bind(host: str, port: int) -> socket.socket:
    """A socket with an address; it does not listen yet. Sockets that are accepted have its options, too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for (level, name), value in KEEPALIVE.items():
            bound.setsockopt(level, name, value)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


class AmqpServer:
    """The listeners of a hub, and the sockets that they accepted."""

    def __init__(self, hub: Hub, admission: Admission, handshake_timeout_s: float) -> None:
        """Nothing is listened on yet."""
        self.hub = hub
        self.admission = admission
        self.handshake_timeout_s = handshake_timeout_s
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.sockets: set[Socket] = set()
        self._listeners: list[asyncio.Server] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._tick)

    async def listen(self, bound: socket.socket, context: Context | None = None) -> None:
        """Accept connections; with a context, by TLS."""
        loop = asyncio.get_running_loop()
        self._listeners.append(
            await loop.create_server(lambda: Socket(self, context), sock=bound, backlog=BACKLOG)
        )

    def enter(self, accepted: Socket) -> None:
        """A socket was accepted."""
        self.sockets.add(accepted)
        self._idle.clear()

    def leave(self, closed: Socket) -> None:
        """A socket is gone."""
        self.sockets.discard(closed)
        if not self.sockets:
            self._idle.set()

    def _tick(self) -> None:
        """Look at every connection, once a second."""
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._tick)
        self.hub.sweep()

    def stop_listening(self) -> None:
        """Accept no more."""
        for listener in self._listeners:
            listener.close()

    async def drain(self, code: int, text: str, timeout_s: float) -> int:
        """Ask every client to go and wait until they are gone; give how many did not in time, and close those."""
        self.hub.ask_close(code, text)
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            pass
        left = list(self.sockets)
        for each in left:
            each.abort()
        await self._idle.wait()
        self._sweep.cancel()
        return len(left)


class Socket(asyncio.BufferedProtocol):
    """One accepted socket."""

    def __init__(self, server: AmqpServer, context: Context | None) -> None:
        """Not connected yet."""
        self._server = server
        self._hub = server.hub
        self._buffer = server.buffer
        self._context = context
        self._connection: Connection | None = None
        self._known = False
        self._reading = True
        self._upgrade: asyncio.Task[None] | None = None
        self.host = ""
        self.port = 0

    # From the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the client in, or not."""
        self._transport = cast("asyncio.Transport", transport)
        self.host, self.port = transport.get_extra_info("peername")[:2]
        reason = self._server.admission.refusal(self.host)
        if reason is not None:
            LOG.warning("connection refused", peer=self.peer, reason=reason)
            self._transport.abort()
            return
        self._server.admission.enter(self.host)
        self._server.enter(self)
        if self._context is None:
            self._open(Peer(self.host, self.port))
        else:
            self._transport.pause_reading()
            self._upgrade = asyncio.get_running_loop().create_task(self._start_tls(self._context()))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read to."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Something was read."""
        if self._connection is not None:
            self._hub.receive(self._connection, self._buffer[:nbytes])

    def eof_received(self) -> bool:
        """The client says nothing more, so there is nobody to talk to."""
        return False

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._connection is not None:
            self._connection.writable(False)

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._connection is not None:
            self._connection.writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        if self not in self._server.sockets:
            return
        self._server.admission.leave(self.host, self._known)
        self._server.leave(self)
        if self._connection is not None:
            self._hub.lost(self._connection)
            LOG.info("connection closed", peer=self.peer, error=error)

    # From the hub

    def flush(self) -> None:
        """Write what the connection has to say, and do what it wants done with its socket."""
        connection = self._connection
        assert connection is not None, "only a connection has something to say"
        data = connection.take_output()
        if data:
            self._transport.write(data)
        if connection.finished:
            self._transport.close()
        elif connection.wants_input is not self._reading:
            self._reading = connection.wants_input
            (self._transport.resume_reading if self._reading else self._transport.pause_reading)()
        if not self._known and connection.user is not None:
            self._known = True
            self._server.admission.log_in()

    def abort(self) -> None:
        """Close at once, whatever is still to be written."""
        self._transport.abort()

    @property
    def peer(self) -> str:
        """The address of the client."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    # TLS

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        """Shake hands; the client is not known to the hub before that."""
        loop = asyncio.get_running_loop()
        timeout_s = self._server.handshake_timeout_s
        try:
            upgraded = await loop.start_tls(
                self._transport, self, context, server_side=True, ssl_handshake_timeout=timeout_s
            )
        except (OSError, TimeoutError) as error:
            LOG.info("tls handshake failed", peer=self.peer, reason=error)
            self._transport.abort()
            return
        if upgraded is None:
            return
        self._transport = upgraded
        name = certificate_name(upgraded.get_extra_info("peercert"))
        self._open(Peer(self.host, self.port, True, name))

    def _open(self, peer: Peer) -> None:
        """Begin to talk."""
        self._transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)
        self._connection = Connection(self._hub, peer)
        self._connection.socket = self
        LOG.info("connection opened", peer=self.peer, tls=peer.tls, certificate=peer.certificate_name)
