"""Sockets: bytes from them to connections and back. Whatever the bytes mean is decided elsewhere.

accept -> [TLS] -> Connection           one that is one too many is closed at once
readable -> hub.receive                 all sockets share one buffer: what is read is copied before the next read
flush    -> one write
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, cast

from leveret.observability.logs import Log
from leveret.protocols.amqp.codec import encode
from leveret.protocols.amqp.connection import AmqpConnection, AmqpPeer
from leveret.protocols.amqp.frames import METHOD, FrameReader, FrameWriter
from leveret.protocols.amqp.methods import ConnectionClose, ConnectionCloseOk
from leveret.protocols.amqp.replies import ProtocolError
from leveret.protocols.net.admission import Slot
from leveret.security.tls import ServerTls

if TYPE_CHECKING:
    from leveret.protocols.amqp.server import AmqpServer

OUTPUT_BYTES_HIGH = 1 << 20  # what waits in the buffer of a socket before its consumers get no more
LINGER_S = 10.0  # for a client that was told to go to do so; who never does would keep its place for ever
CLOSE, CLOSE_OK = encode(ConnectionClose())[:4], encode(ConnectionCloseOk())
CLOSE_ANSWERS_MAX = 1_000  # to further connection.close methods: threads of a client may each send one

LOG = Log("amqp")
HANDSHAKE_FAILED = LOG.limited("tls handshake failed", logging.INFO)


class AmqpSocket(asyncio.BufferedProtocol):
    """One accepted socket."""

    def __init__(self, server: AmqpServer, peer: AmqpPeer, slot: Slot, tls: ServerTls | None = None) -> None:
        """Of a client that was let in; it is known better after TLS."""
        self.peer = peer
        self.slot = slot
        self._tls = tls
        self._server = server
        self._hub = server.hub
        self._buffer = server.buffer
        self._connection: AmqpConnection | None = None
        self._transport: asyncio.Transport | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._reading = True
        self._parting: FrameReader | None = None
        """Set after connection.close-ok, or a refusal: the server still answers connection.close."""
        self._close_answers = 0
        self.opened = False
        """Whether the socket was there, and TLS was agreed upon."""

    async def open(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        context = self._tls.context if self._tls else None
        timeout_s = self._server.limits.handshake_ms / 1_000 if context else None
        try:
            await loop.connect_accepted_socket(lambda: self, accepted, ssl=context, ssl_handshake_timeout=timeout_s)
        except (OSError, TimeoutError) as error:
            HANDSHAKE_FAILED.note(peer=self.peer, reason=str(error) or "it took too long")

    # From the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there, and its certificate was verified if it has one."""
        self._transport = cast("asyncio.Transport", transport)
        self.opened = True
        self._transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)
        if self._tls is not None:
            self.peer = self.peer._replace(tls=True, certificate_name=self._tls.name(self, transport))
        self._connection = self._server.connect(self._hub, self.peer)
        self._connection.socket = self
        self._connection.local = transport.get_extra_info("sockname")[:2]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert self._connection is not None, "nothing is read before connection_made"
        if self._linger is None:
            self._hub.receive(self._connection, self._buffer[:nbytes])
        elif self._parting is not None:
            self._parting.feed(self._buffer[:nbytes])
            self._part(self._parting)

    def eof_received(self) -> bool:
        """The client says nothing more, so the connection ends."""
        return False

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.writable(False)

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        if self._linger is not None:
            self._linger.cancel()
        self.give_up()
        self._transport = None  # a transport of TLS refers to its protocol: only gc would free both

    def give_up(self) -> None:
        """Let go of the connection and of its place; once is enough."""
        connection, self._connection = self._connection, None
        if connection is not None and self._linger is None:
            self._hub.lost(connection)
        self._server.leave(self)

    # From the server

    def flush(self) -> None:
        """Write what the connection has to say, and do what it wants done with its socket."""
        connection, transport = self._connection, self._transport
        if connection is None or transport is None or transport.is_closing() or self._linger is not None:
            return
        data = connection.take_output()
        if data:
            transport.write(data)
        if transport.is_closing():
            return  # what was written could not be: the loop is about to tell that the socket is gone
        if connection.finished:
            self._end(connection, transport)
        elif connection.wants_input is not self._reading:
            self._reading = connection.wants_input
            (transport.resume_reading if self._reading else transport.pause_reading)()
        if not self.slot.authenticated and connection.identity is not None:
            self.slot.authenticate()

    def _end(self, connection: AmqpConnection, transport: asyncio.Transport) -> None:
        """Say no more, and hear the client out: input left unread would reset the socket, and lose our last words.

        After connection.close-ok or a refusal the client closes the socket: clients take an early FIN for an error.
        """
        self._linger = asyncio.get_running_loop().call_later(LINGER_S, transport.abort)
        self._hub.lost(connection)
        if connection.client_closes:
            self._parting = connection.reader
            transport.resume_reading()
            self._part(self._parting)
        elif transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()
        else:
            transport.close()

    def _part(self, reader: FrameReader) -> None:
        """Answer further connection.close methods; close the socket at connection.close-ok or an invalid frame."""
        assert self._transport is not None, "only an open socket lingers"
        try:
            while (frame := reader.next_frame()) is not None and not self._transport.is_closing():
                kind, channel, payload = frame
                if kind != METHOD or channel:
                    continue
                if payload[:4] == CLOSE_OK[:4]:
                    self._transport.close()
                elif payload[:4] == CLOSE and self._close_answers < CLOSE_ANSWERS_MAX:
                    self._close_answers += 1
                    writer = FrameWriter()
                    writer.method(0, CLOSE_OK)
                    self._transport.write(writer.take())
        except ProtocolError:
            self._transport.close()

    @property
    def unsent_bytes(self) -> int:
        """What the client has not read yet."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return unsent + (0 if self._connection is None else self._connection.outlet.pending_bytes)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
