"""The hub with its listeners and sockets, in an event loop.

accept   -> [TLS] -> connection         one that is one too many is closed at once
readable -> hub.receive                 all sockets share one buffer: what is read is copied before the next read
outbox   -> one write for each socket   once per turn of the loop
journal  -> hub.durable                 when a frame is on the disk
every second: heartbeats, time limits
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from leveret.core.errors import JournalFailed
from leveret.observability.logs import LimitedEvent, Log
from leveret.protocols.amqp.connection import AmqpConnection, AmqpPeer
from leveret.protocols.amqp.hub import Hub
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.watch import SWEEP_MS
from leveret.protocols.net.admission import ConnectionBudget, Slot
from leveret.protocols.net.listener import SocketServer
from leveret.runtime.durability import LoopThread
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access
from leveret.security.authentication import Authentication
from leveret.security.logins import LoginAttempt
from leveret.security.tls import ServerTls
from leveret.wire.codec import encode
from leveret.wire.frames import METHOD, FrameReader, FrameWriter
from leveret.wire.methods import ConnectionClose, ConnectionCloseOk
from leveret.wire.replies import ProtocolError

OUTPUT_BYTES_HIGH = 1 << 20  # what waits in the buffer of a socket before its consumers get no more
LINGER_S = 10.0  # for a client that was told to go to do so; who never does would keep its place for ever
CLOSE, CLOSE_OK = encode(ConnectionClose())[:4], encode(ConnectionCloseOk())
CLOSE_ANSWERS_MAX = 1_000  # to further connection.close methods: threads of a client may each send one

LOG = Log("amqp")
READ_BYTES = 262_144
SWEEP_S = SWEEP_MS / 1_000
DRAIN_IDLE_S = 2.0  # for connection.close-ok of a client that has read everything: one that hangs delays no stop
THREADS_MAX = 4  # for large bodies

T = TypeVar("T")


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


class AmqpServer(SocketServer[AmqpSocket]):
    """The hub, its listeners and the sockets that they accepted."""

    def __init__(
        self,
        runtime: Runtime,
        access: Access,
        limits: AmqpLimits,
        admission: ConnectionBudget,
        connect: Callable[[Hub, AmqpPeer], AmqpConnection] = AmqpConnection,
        authentication: Authentication | None = None,
    ) -> None:
        """Serve the broker of a runtime in the running loop; nothing is listened on yet."""
        super().__init__(
            admission,
            LOG,
            lambda host, port, slot, tls: AmqpSocket(self, AmqpPeer(host, port), slot, tls),
            lambda accepted: limits.handshake_ms / 1_000,
        )
        self.connect = connect
        self._thread = LoopThread()
        self.hub = Hub(
            runtime,
            self._wake,
            access,
            self._in_thread,
            limits,
            authentication=authentication,
            decide=self._decide,
            soon=self._thread.call,
        )
        runtime.on_durable(partial(self._thread.call, self.hub.durable), self.hub.waiting)
        self.limits = limits
        self.buffer = memoryview(bytearray(READ_BYTES))
        self._jobs: set[Future[Any]] = set()
        self._threads = ThreadPoolExecutor(THREADS_MAX, "leveret-amqp")
        self._sweep = self._loop.call_later(SWEEP_S, self._tick)
        self._beat = self._loop.call_later(1.5 * SWEEP_S, self._send_heartbeats)

    # Coming and going

    async def drain(self, code: int, text: str, timeout_s: float) -> int:
        """Ask every client to go and wait until they are gone; give how many did not in time, and close those.

        A client that has read all that was sent to it gets `DRAIN_IDLE_S`, one that still reads the whole time.
        """
        self.hub.ask_close(code, text)
        idle_s = min(DRAIN_IDLE_S, timeout_s)
        await self._wait_until_idle(idle_s)
        idle = [each for each in self.clients if not each.unsent_bytes]
        for each in idle:
            self.close(each)
        await self._wait_until_idle(timeout_s - idle_s)
        left = list(self.clients)
        for each in left:
            self.close(each)
        await self._idle.wait()
        await self.end()
        return len({*idle, *left})

    async def _wait_until_idle(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)

    async def end(self) -> None:
        await asyncio.gather(*map(asyncio.wrap_future, list(self._jobs)), return_exceptions=True)
        self._threads.shutdown()
        self._sweep.cancel()
        self._beat.cancel()

    def set_alarm(self, reason: str | None) -> None:
        """Block publishers for a reason, or let them go on."""
        self.hub.set_alarm(reason)

    # Turns of the loop

    def _wake(self) -> None:
        """Write what is to be written when the loop has its next turn: by then it is more. From whatever thread."""
        self._thread.call(self.hub.flush)

    def _tick(self) -> None:
        """Look at every connection, once a second."""
        self._sweep = self._loop.call_later(SWEEP_S, self._tick)
        LimitedEvent.flush_all()
        with suppress(JournalFailed):  # a shard that has another owner is about to be given up
            self.hub.sweep()

    def _send_heartbeats(self) -> None:
        """Half-way between two looks, so that clients with an interval of one second get two heartbeats in it."""
        self._beat = self._loop.call_later(SWEEP_S, self._send_heartbeats)
        with suppress(JournalFailed):
            self.hub.beat()

    def _in_thread(self, job: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run a job in a thread, then `done` in the loop; called by the thread that pushes a message, whichever
        that is.
        """
        future = self._threads.submit(job)
        self._jobs.add(future)
        future.add_done_callback(lambda _: self._thread.call(self._finish, future, done))

    def _decide(
        self, host: str, name: str, now_ms: int, decide: Callable[[], T], done: Callable[[T | Exception], None]
    ) -> LoginAttempt:
        """Decide a login in line with those of the other protocols, then `done` in the loop."""
        return self.hub.access.logins.submit(host, name, now_ms, decide, partial(self._thread.call, done))

    def _finish(self, future: Future[T], done: Callable[[T], None]) -> None:
        self._jobs.discard(future)
        error = future.exception()
        if error is None:
            done(future.result())
        else:
            LOG.error("job failed", error)
