"""An HTTP server in a thread, and clients that send bytes as they like."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

import uvloop

from leveret.clock import SystemClock
from leveret.protocols.http.limits import Budget, HttpLimits
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.http.server import Handler, HttpServer
from leveret.protocols.net.admission import ConnectionBudget
from leveret.protocols.net.listener import bind
from leveret.security.tls import ServerTls
from tests.waiting import PATIENCE_S


class Answer(NamedTuple):
    """What a client got."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """A socket with a server at its other end."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._file = connected.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, line: str, *headers: str, body: bytes = b"") -> Answer:
        """Send a request and read the answer."""
        head = [f"{line} HTTP/1.1", "Host: test", *headers]
        if body:
            head.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*head, "", ""]).encode() + body)
        return self.answer(line.split()[0])

    def answer(self, method: str = "GET") -> Answer:
        """Read one answer."""
        status = int(self._line().split(" ")[1])
        headers = {}
        while line := self._line():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        if method == "HEAD" or status in (100, 204):
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, self._chunks())
        if "content-length" not in headers:
            return Answer(status, headers, self._file.read())
        return Answer(status, headers, self._file.read(int(headers["content-length"])))

    def _line(self) -> str:
        line = self._file.readline()
        if not line:
            raise EOFError("the server closed the connection")
        return line.decode().rstrip("\r\n")

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._line(), 16):
            body += self._file.read(size)
            self._line()
        self._line()
        return body

    def is_closed(self) -> bool:
        """Wait until the server has closed the connection; False when it says something first."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def hello(request: Request) -> Response:
    """A handler that tells what it was asked."""
    return Response(200, request.method.encode() + b" " + request.target + b" " + request.body, "text/plain")


class World:
    """A server, in a loop of its own."""

    def __init__(
        self,
        handler: Handler = hello,
        limits: HttpLimits | None = None,
        admission: ConnectionBudget | None = None,
        tls: ServerTls | None = None,
        is_health: Callable[[Request], bool] = lambda request: False,
        budget: Budget | None = None,
        admits: bool = False,
    ) -> None:
        self._handler = handler
        self._limits = limits or HttpLimits()
        self._admission = admission or ConnectionBudget(1_000, 1_000, 1_000)
        self._tls = tls
        self._is_health = is_health
        self.budget = budget or Budget()
        self._admits = admits
        self._clients: list[Client] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._timeout_s: float | None = None
        self.drained: int | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        self.stop()

    def stop(self, timeout_s: float = 1) -> None:
        """Let the server end."""
        self.begin_stop(timeout_s)
        self._thread.join()

    def begin_stop(self, timeout_s: float) -> None:
        """Ask the server to end, once, and do not wait for it."""
        if self._timeout_s is None:
            self._timeout_s = timeout_s
            self.loop.call_soon_threadsafe(self._stopping.set)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self.server = HttpServer(
            self._handler,
            self._limits,
            self._admission,
            SystemClock(),
            is_health=self._is_health,
            budget=self.budget,
            admits=self._admits,
        )
        bound = bind("127.0.0.1", 0)
        self.port = bound.getsockname()[1]
        self.server.listen(bound, self._tls)
        self._ready.set()
        await self._stopping.wait()
        self.server.stop_listening()
        assert self._timeout_s is not None, "whoever stops it says how long it may take"
        self.drained = await self.server.drain(self._timeout_s)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""

        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0.005)

        asyncio.run_coroutine_threadsafe(wait(), self.loop).result(PATIENCE_S)

    def connect(self, context: ssl.SSLContext | None = None) -> Client:
        """A new connection."""
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        client = Client(plain if context is None else context.wrap_socket(plain, server_hostname="127.0.0.1"))
        self._clients.append(client)
        return client
