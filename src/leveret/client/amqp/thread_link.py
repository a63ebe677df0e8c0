"""The connection of a client for threads: one of its own reads; a verb writes, then waits at a gate."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress
from typing import cast

from leveret.client.amqp.channels import Pending
from leveret.client.amqp.connection import ClientConnection
from leveret.client.amqp.link import CLOSED, Link, now_ms
from leveret.client.amqp.servers import AmqpServer
from leveret.clock import closed_gate, open_gate
from leveret.core.errors import BrokerClosed, LeveretError, Unreachable
from leveret.runtime.verbs import finish

READ_BYTES = 262_144
ACK_DELAY_MS = 5
"""So long acks may wait for others, if nothing else is sent."""
CLOSE_S = 5.0


class Gate(Pending):
    """What a thread waits for."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        super().__init__()
        self._lock = closed_gate()

    def wake(self) -> None:
        open_gate(self._lock)

    def wait(self, seconds: float | None) -> bool:
        """Wait until it is woken."""
        return self._lock.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX))


class ThreadLink(Link):
    """A connection for any number of threads, with a thread of its own that reads."""

    def __init__(self, connection: ClientConnection, timeout_s: float) -> None:
        super().__init__(connection, timeout_s)
        self.lock = threading.Lock()
        self._writing = threading.Lock()
        self._socket: socket.socket | None = None
        self._direct = False
        self._rest = memoryview(b"")
        self._acks_at_ms: int | None = None
        self._ended = threading.Event()
        self._awake: socket.socket
        self._alarm: socket.socket
        self._thread: threading.Thread | None = None

    def pending(self) -> Gate:
        return Gate()

    async def wait(self, pending: Pending, seconds: float | None) -> bool:
        return cast("Gate", pending).wait(seconds)

    async def rest(self, seconds: float) -> None:
        self._ended.wait(seconds)

    def touch(self) -> None:
        if self._thread is None:
            self._start()
        if self._direct and self._socket is not None:
            self._flush()
        else:
            self._wake()

    def touch_soon(self) -> None:
        if self._acks_at_ms is None:
            self._acks_at_ms = now_ms() + ACK_DELAY_MS
            self._wake()

    def _start(self) -> None:
        with self.lock:
            if self._thread is None and not self.closing:
                self._awake, self._alarm = socket.socketpair()
                self._awake.setblocking(False)
                self._alarm.setblocking(False)
                self._thread = threading.Thread(target=self._run, name="leveret-amqp", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            finish(self._drive())
        finally:
            self._awake.close()
            self._alarm.close()

    def _wake(self) -> None:
        if self._thread is not None:
            with suppress(OSError):  # it is full of alarms, or closed
                self._alarm.send(b"!")

    async def _idle(self) -> None:
        poll = select.poll()
        poll.register(self._awake, select.POLLIN)
        poll.poll()
        self._quiet()

    def _quiet(self) -> None:
        with suppress(BlockingIOError):
            while self._awake.recv(4096):
                pass

    async def _connect(self, server: AmqpServer, connect_s: float) -> None:
        found = socket.create_connection((server.host, server.port), connect_s)
        try:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if server.tls is not None:
                found = server.tls.wrap_socket(found, server_hostname=server.host)
        except BaseException:
            found.close()
            raise
        found.setblocking(False)
        with self.lock:
            self._rest = memoryview(self.connection.begin(now_ms()))
            # OpenSSL lets one thread at a time use a connection: that is the one that reads.
            self._socket, self._direct = found, server.tls is None

    async def _serve(self) -> LeveretError:
        assert self._socket is not None
        try:
            while True:
                self._turn(self._socket)
        except LeveretError as error:
            return error
        except OSError as error:
            return Unreachable(f"the connection broke ({error}): see whether the server runs")
        finally:
            with self._writing:
                found, self._socket = self._socket, None
                self._rest = memoryview(b"")
                found.close()

    def _turn(self, found: socket.socket) -> None:
        """Send what there is, then wait for what comes or is to be done, and take it."""
        now, acks_at = now_ms(), self._acks_at_ms
        if acks_at is None or now >= acks_at:
            self._acks_at_ms = acks_at = None
        with self.lock:
            tick = self.connection.tick(now)
        if acks_at is None or self._rest:
            self._flush(own=True)
        times = [each for each in (tick, acks_at) if each is not None]
        poll = select.poll()
        poll.register(self._awake, select.POLLIN)
        poll.register(found, select.POLLIN | (select.POLLOUT if self._rest else 0))
        ready = dict(poll.poll(max(0, min(times) - now) if times else None))
        if self._awake.fileno() in ready:
            self._quiet()
        if ready.get(found.fileno(), 0) & ~select.POLLOUT:
            self._read(found)

    def _read(self, found: socket.socket) -> None:
        while True:
            try:
                data = found.recv(READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                raise Unreachable("the server closed the connection: see its log")
            with self.lock:
                self.connection.receive(data, now_ms())
            if not isinstance(found, ssl.SSLSocket) or not found.pending():
                return

    def _flush(self, own: bool = False) -> None:
        """Write what there is, unless another thread is just doing that: it looks once more at its end."""
        connection = self.connection
        while self._rest or connection.traffic.pending_bytes or connection.dirty:
            if not self._writing.acquire(blocking=False):
                return
            try:
                found = self._socket
                if found is None:
                    return
                if not self._rest:
                    with self.lock:
                        self._rest = memoryview(connection.take(now_ms()))
                while self._rest:
                    self._rest = self._rest[found.send(self._rest) :]
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if not own:
                    self._wake()  # the rest is sent when the socket takes it
                return
            except OSError:
                if own:
                    raise
                self._wake()
                return
            finally:
                self._writing.release()

    async def close(self) -> None:
        with self.lock:
            if self.closing:
                return
            self.closing = True
            thread, waits = self._thread, self.connection.close()
        self._ended.set()
        if thread is None:
            self.connection.fail(BrokerClosed(CLOSED))
        elif thread is not threading.current_thread():
            self._wake()
            thread.join(CLOSE_S if waits else 0.0)
            if thread.is_alive() and (found := self._socket) is not None:
                with suppress(OSError):
                    found.shutdown(socket.SHUT_RDWR)
            thread.join(CLOSE_S)
