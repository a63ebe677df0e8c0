"""How a client waits: for a connection, an answer, or some seconds; in a thread, or in a task.

Both are coroutines. Those of ThreadNetwork block the thread and never suspend (see runtime/verbs.py).
"""

import asyncio
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from leveret.client.servers import Address
from leveret.core.errors import Unreachable
from leveret.http_client import READ_BYTES, Answer, AnswerReader, AsyncConnection
from leveret.runtime.verbs import Steps, finish

HANGS = "it gives no sign of life"

D = TypeVar("D")
T = TypeVar("T")


class AnswerLost(Exception):
    """No answer came; `sent`: the server may have done it all the same."""

    def __init__(self, reason: str, sent: bool) -> None:
        super().__init__(reason)
        self.reason = Unreachable(reason)
        self.sent = sent


def _not_connected(address: Address, why: str) -> AnswerLost:
    return AnswerLost(f"cannot connect to {address!r} ({why}): see whether it runs", False)


def _no_answer(why: str) -> AnswerLost:
    return AnswerLost(f"no answer came ({why}): try again", True)


class AnswerTimeouts(NamedTuple):
    """How long to wait for a server, and when to look whether it lives; None: never."""

    timeout_s: float
    silent_s: float | None
    lives: Callable[[Address], Steps[bool]]


class ThreadConnection:
    """A connection that one thread uses at a time."""

    def __init__(self, address: Address, connect_s: float) -> None:
        self.address = address
        try:
            plain = socket.create_connection((address.host, address.port), connect_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise _not_connected(address, str(error.strerror or error)) from None
        try:
            self._socket = (
                plain if address.tls is None else address.tls.wrap_socket(plain, server_hostname=address.host)
            )
        except OSError as error:
            plain.close()
            raise AnswerLost(f"cannot agree on TLS with {address!r}: {error}", False) from None
        self._reader = AnswerReader()

    @property
    def fresh(self) -> bool:
        """Whether the server has not closed it meanwhile."""
        poll = select.poll()  # select() has a limit on the number of a file
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._reader.keep_alive

    async def ask(self, request: bytes, patience: AnswerTimeouts) -> Answer:
        """Send a request and wait for the answer."""
        rest = memoryview(request)
        try:
            while rest:
                rest = rest[self._patiently(self._socket.send, rest, patience) :]
            while True:
                data = self._patiently(self._socket.recv, READ_BYTES, patience)
                if not data:
                    raise ConnectionError("the server closed the connection")
                answer = self._reader.feed(data)
                if answer is not None:
                    return answer
        except OSError as error:
            raise _no_answer(str(error)) from None

    def _patiently(self, step: Callable[[D], T], data: D, patience: AnswerTimeouts) -> T:
        """Send or receive something, as long as that takes, if the server gives signs of life meanwhile."""
        left_s, silent_s = patience.timeout_s, patience.silent_s or patience.timeout_s
        while True:
            wait_s = min(silent_s, left_s)
            if self._socket.gettimeout() != wait_s:  # to set it is a system call
                self._socket.settimeout(wait_s)
            try:
                return step(data)
            except TimeoutError:
                left_s -= silent_s
                if left_s <= 0:
                    raise
                if not finish(patience.lives(self.address)):
                    raise ConnectionError(HANGS) from None
                silent_s *= 2

    def stop(self) -> None:
        """Let the thread that waits for an answer know that none comes."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def abort(self) -> None:
        """Close it at once."""
        self._socket.close()

    async def close(self) -> None:
        self.abort()


class ThreadNetwork:
    """Connections whose answers a thread waits for."""

    run = staticmethod(finish)

    def __init__(self) -> None:
        self._closed = threading.Event()

    async def connect(self, address: Address, connect_s: float) -> ThreadConnection:
        return ThreadConnection(address, connect_s)

    async def rest(self, seconds: float) -> None:
        """Do nothing for a while, or until it is closed."""
        self._closed.wait(seconds)

    def close(self) -> None:
        self._closed.set()


class TaskConnection(AsyncConnection):
    """A connection of asyncio."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.address = address

    async def ask(self, request: bytes, patience: AnswerTimeouts) -> Answer:
        try:
            async with asyncio.timeout(patience.timeout_s):
                if patience.silent_s is None:
                    return await self.exchange(request)
                return await self._watched(request, patience.silent_s, patience.lives)
        except (OSError, TimeoutError) as error:
            raise _no_answer(_reason(error)) from None

    async def _watched(self, request: bytes, silent_s: float, lives: Callable[[Address], Steps[bool]]) -> Answer:
        """Wait for an answer as long as the server gives signs of life."""
        asking = asyncio.ensure_future(self.exchange(request))
        try:
            while not (await asyncio.wait([asking], timeout=silent_s))[0]:
                if not await lives(self.address) and not asking.done():
                    raise ConnectionError(HANGS)
                silent_s *= 2
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    stop = AsyncConnection.abort


class TaskNetwork:
    """Connections of one event loop."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()

    async def connect(self, address: Address, connect_s: float) -> TaskConnection:
        try:
            async with asyncio.timeout(connect_s):
                return TaskConnection(
                    address, *await asyncio.open_connection(address.host, address.port, ssl=address.tls)
                )
        except (OSError, TimeoutError) as error:
            raise _not_connected(address, _reason(error)) from None

    async def rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    def close(self) -> None:
        self._closed.set()


Connection = ThreadConnection | TaskConnection
Network = ThreadNetwork | TaskNetwork


def _reason(error: OSError) -> str:
    """What went wrong; a time limit of asyncio says nothing itself."""
    return str(error) or "it took too long"
