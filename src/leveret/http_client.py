"""HTTP/1.1 for the parts that ask other servers: the client, etcd, collectors of traces, webhooks, OAuth2 providers.

Answers have a limit of size, and every wait one of time. No proxy of the environment is used, and no redirection is
followed: a request goes to the address that the caller gives.

    AnswerReader      bytes in, answers out; no sockets
    AsyncConnection   a connection of asyncio, on that
    ThreadedClient    requests of a thread, on Python's own http.client
"""

import asyncio
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any, NamedTuple

from leveret.core.errors import Unreachable

try:
    from httptools import HttpParserError, HttpResponseParser
except ImportError:  # for a client that is nothing but Python
    from leveret.pure.http_parser import HttpParserError, HttpResponseParser  # type: ignore[assignment]

READ_BYTES = 262_144
ANSWER_BYTES_MAX = 1 << 30  # a server that sends more is not one of ours
HEAD_BYTES_MAX = 2 * READ_BYTES  # without a limit a server could send headers for ever, which the parser keeps
HEADERS_MAX = 200

Connect = Callable[[tuple[str, int], float], socket.socket]
"""Opens a connection within so many seconds."""


class Answer(NamedTuple):
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body) if self.body else {}
        except (ValueError, RecursionError):
            raise Unreachable("the answer is not JSON: check that the URL is that of a Leveret server") from None


class AnswerReader:
    """Takes the bytes of one connection, answer after answer."""

    def __init__(self, answer_bytes_max: int = ANSWER_BYTES_MAX) -> None:
        self._bytes_max = answer_bytes_max
        self.keep_alive = False
        self._begin()

    def _begin(self) -> None:
        self._parser = HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = self._head_size = 0
        self._in_body = self._complete = False

    def feed(self, data: bytes) -> Answer | None:
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            raise Unreachable(f"the answer is not HTTP ({error}): check the URL") from None
        if self._size > self._bytes_max:
            raise Unreachable(f"the answer has over {self._bytes_max} bytes: check the URL")
        if self._complete:
            answer = Answer(self._parser.get_status_code(), self._headers, b"".join(self._parts))
            self._begin()
            return answer
        if not self._in_body:
            self._head_size += len(data)
            if self._head_size > HEAD_BYTES_MAX:
                raise Unreachable(f"the answer has over {HEAD_BYTES_MAX} bytes of headers: check the URL")
        return None

    def take(self) -> bytes:
        """What has come of the body of an answer that is not complete; it is not part of the answer any more."""
        taken, self._parts, self._size = b"".join(self._parts), [], 0
        return taken

    # From the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self._headers) >= HEADERS_MAX:
            raise HttpParserError("too many headers")
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_body = self._parser.get_status_code() >= 200

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= self._bytes_max:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        """All of it came; an interim answer (100) is not one."""
        if self._parser.get_status_code() >= 200:
            self._complete = True
            self.keep_alive = self._parser.should_keep_alive()
        else:
            self._headers = {}


class AsyncConnection:
    """A connection for asyncio."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        self._in = reader
        self._out = writer
        self._reader = AnswerReader(answer_bytes_max)

    @property
    def fresh(self) -> bool:
        """Whether the server has not closed it meanwhile."""
        return not self._in.at_eof() and not self._out.is_closing()

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._reader.keep_alive

    async def exchange(self, request: bytes) -> Answer:
        """Send a request; the whole answer."""
        self._out.write(request)
        await self._out.drain()
        while True:
            answer = await self.read()
            if answer is not None:
                return answer

    async def read(self) -> Answer | None:
        """Wait for a part of the answer; gives the answer with its last part."""
        data = await self._in.read(READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        return self._reader.feed(data)

    def abort(self) -> None:
        self._out.transport.abort()

    async def close(self) -> None:
        self._out.close()
        with suppress(OSError):
            await self._out.wait_closed()


class ThreadedClient(HTTPConnection):
    """Requests of one thread to one server, by a connection that is kept while the server keeps it."""

    def __init__(
        self,
        host: str,
        port: int | None,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        connect: Connect = socket.create_connection,
    ) -> None:
        """Connect with the first request; `timeout_s` is for each wait: to connect, to get the next bytes."""
        self._tls, self._connect, self._timeout_s = tls, connect, timeout_s
        self.default_port = 80 if tls is None else 443
        super().__init__(host, port, timeout=timeout_s)

    def connect(self) -> None:
        plain = self._connect((self.host, self.port), self._timeout_s)
        try:
            self.sock = plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, bytes_max: int
    ) -> tuple[int, bytes]:
        """The status of the answer, and at most so many bytes of it; raises OSError or HTTPException."""
        try:
            self.request(method, path, body, headers)
            answer = self.getresponse()
            told = answer.read(bytes_max) if bytes_max else b""
            if not answer.isclosed():
                self.close()  # what was not read would be taken for the next answer
        except BaseException:
            self.close()
            raise
        return answer.status, told

    def stop(self) -> None:
        """End the wait of the thread that waits for an answer."""
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
