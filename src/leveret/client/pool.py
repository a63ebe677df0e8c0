"""Connections to servers for threads: kept open between requests, each used by one thread at a time."""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import NamedTuple, TypeVar

from leveret.client.address import Address
from leveret.client.servers import UNABLE, Request, ServerList, probe
from leveret.core.errors import Unreachable
from leveret.http_client import READ_BYTES, Answer, AnswerReader

IDLE_MAX = 64  # connections that are kept for the next request
HANGS = "it gives no sign of life"

T = TypeVar("T")


class AnswerLost(Exception):
    """No answer came; `sent`: the server may have done it all the same."""

    def __init__(self, reason: Unreachable, sent: bool) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.sent = sent


class AnswerTimeouts(NamedTuple):
    """How long to wait for a server, and when to look whether it lives; None: never."""

    timeout_s: float
    silent_s: float | None
    lives: Callable[[Address], bool]


class PooledConnection:
    """One connection."""

    def __init__(self, address: Address, connect_s: float) -> None:
        self.address = address
        try:
            plain = socket.create_connection((address.host, address.port), connect_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            problem = f"cannot connect to {address!r} ({error.strerror or error}): see whether it runs"
            raise AnswerLost(Unreachable(problem), False) from None
        try:
            self._socket = (
                plain if address.tls is None else address.tls.wrap_socket(plain, server_hostname=address.host)
            )
        except OSError as error:
            plain.close()
            raise AnswerLost(Unreachable(f"cannot agree on TLS with {address!r}: {error}"), False) from None
        self._reader = AnswerReader()

    @property
    def fresh(self) -> bool:
        """Whether the server has not closed it meanwhile."""
        poll = select.poll()  # select() has a limit on the number of a file
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def ask(self, request: bytes, watch: AnswerTimeouts) -> Answer:
        """Send a request and wait for the answer."""
        rest = memoryview(request)
        try:
            while rest:
                rest = rest[self._patiently(partial(self._socket.send, rest), watch) :]
            while True:
                data = self._patiently(partial(self._socket.recv, READ_BYTES), watch)
                if not data:
                    raise ConnectionError("the server closed the connection")
                answer = self._reader.feed(data)
                if answer is not None:
                    return answer
        except OSError as error:
            raise AnswerLost(Unreachable(f"no answer came ({error}): try again"), True) from None

    def _patiently(self, step: Callable[[], T], watch: AnswerTimeouts) -> T:
        """Send or receive something, as long as that takes, if the server gives signs of life meanwhile."""
        left_s, silent_s = watch.timeout_s, watch.silent_s or watch.timeout_s
        while True:
            self._socket.settimeout(min(silent_s, left_s))
            try:
                return step()
            except TimeoutError:
                left_s -= silent_s
                if left_s <= 0:
                    raise
                if not watch.lives(self.address):
                    raise ConnectionError(HANGS) from None
                silent_s *= 2

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._reader.keep_alive

    def stop(self) -> None:
        """Let the thread that waits for an answer know that none comes."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it."""
        self._socket.close()


class Pool:
    """The connections of a client."""

    def __init__(self, servers: ServerList) -> None:
        self._servers = servers
        self._idle: list[PooledConnection] = []
        self._waiting: set[PooledConnection] = set()
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, request: Request, timeout_s: float, waits: bool = False, repeatable: bool = False) -> Answer:
        """Send a request by any connection; one that `waits` for messages ends when the pool is closed.

        `repeatable`: it may be asked of another server, so a server that gives no sign of life is not waited for.
        """
        address = self._servers.current
        watch = AnswerTimeouts(timeout_s, self._servers.silent_s(repeatable), self._lives)
        try:
            link = self._take(address) or PooledConnection(address, self._servers.connect_s)
            answer = self._ask(link, request, watch, waits)
        except AnswerLost:
            self._servers.failed(address)
            raise
        if answer.status in UNABLE:
            self._servers.failed(address)
        return answer

    def _lives(self, address: Address) -> bool:
        """Whether a server answers anything."""
        patience_s = self._servers.connect_s
        try:
            with closing(PooledConnection(address, patience_s)) as link:
                link.ask(probe(address), AnswerTimeouts(patience_s, None, self._lives))
        except (AnswerLost, Unreachable):
            return False
        return True

    def _ask(self, link: PooledConnection, request: Request, watch: AnswerTimeouts, waits: bool) -> Answer:
        """Send a request by a connection, which is kept if all went well."""
        try:
            if waits:
                self._wait(link)
            answer = link.ask(request(link.address), watch)
        except BaseException:
            self._drop(link)
            raise
        self._give(link)
        return answer

    def _wait(self, link: PooledConnection) -> None:
        with self._lock:
            if self._closed:
                raise AnswerLost(Unreachable("the client was closed: connect again"), False)
            self._waiting.add(link)

    def _drop(self, link: PooledConnection) -> None:
        with self._lock:
            self._waiting.discard(link)
        link.close()

    def _take(self, address: Address) -> PooledConnection | None:
        """The connection to a server that was used last, if it was kept there; those to others are closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if link.address is address and link.fresh:
                return link
            link.close()

    def _give(self, link: PooledConnection) -> None:
        with self._lock:
            self._waiting.discard(link)
            if link.reusable and not self._closed and len(self._idle) < IDLE_MAX:
                self._idle.append(link)
                return
        link.close()

    def close(self) -> None:
        """Close what is idle or waits for messages now, and everything else when its answer has come."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for link in self._waiting:
                link.stop()
        for link in idle:
            link.close()
