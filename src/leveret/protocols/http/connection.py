"""One connection: requests in, answers out in the same order, one handler at a time.

bytes -> Reader -> handler -> Response          answered at once, without a task
                           -> awaitable         what comes meanwhile waits: some requests, then some bytes, then TCP
                           -> Stream            parts as fast as the client reads

The handler is asked by the headers whether a large body is wanted; what it refuses is the end of the connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from leveret.core.errors import LeveretError
from leveret.observability.logs import AROUND, Log
from leveret.protocols.http.limits import MemoryShare
from leveret.protocols.http.problem import internal
from leveret.protocols.http.reader import ReaderPhase, RequestReader
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import NO_BODY, Admitted, Answer, Headers, Output, Response, Streamed, field_lines
from leveret.protocols.net.admission import Slot
from leveret.runtime.durability import PendingAnswer
from leveret.security.tls import ServerTls

if TYPE_CHECKING:
    from leveret.protocols.http.server import HttpServer

HELD_BYTES_MAX = 65_536  # read while an answer is being made: enough to notice that the client goes
SLICE_BYTES = 8_192  # read in one turn of the loop: many small requests in one piece do not stop the others
BODY_SLICE_BYTES = 65_536
LINGER_BYTES_MAX = 1 << 20
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

STREAMED = object()  # what work on a stream gives

LOG = Log("http")
NO_MEMORY = LOG.limited("request refused", reason="requests take more than http_memory_bytes")


class HttpConnection(asyncio.Protocol):
    """A client that was let in."""

    def __init__(self, server: HttpServer, host: str, port: int, slot: Slot, tls: ServerTls | None = None) -> None:
        self.host = host
        self.slot = slot
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._server = server
        self._port = port
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._share = MemoryShare(server.budget, self.abort)
        self._output = Output(server.call_soon, self._share)
        self._reader = RequestReader(server.limits, HttpPeer(host, port, slot=slot), self._received)
        self._pending: deque[tuple[Request, bool]] = deque()
        self._work: asyncio.Future[object] | PendingAnswer[Answer] | None = None
        self._current: tuple[Request, bool] | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._reading = True
        self._body_bytes = 0
        self._current_bytes = 0
        self._fault: LeveretError | Response | None = None
        self._closing = False
        self._lingered_bytes = 0
        self._resumed: asyncio.Event | None = None
        self._since_s = server.now_s
        self._served = False
        self.opened = False
        """Whether the socket was there, and TLS was agreed upon."""

    # From the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there, and its certificate was verified if it has one."""
        self._transport = cast("asyncio.Transport", transport)
        self.opened = True
        self._output.open(self._transport)
        self._since_s = self._server.now_s
        if self._tls is not None:
            peer = HttpPeer(self.host, self._port, True, self._tls.name(self, transport), self.slot)
            self._reader.close()
            self._reader = RequestReader(self._server.limits, peer, self._received)

    def data_received(self, data: bytes) -> None:
        if self._closing or self._fault is not None:
            self._linger(len(data))
        elif self._work is None and self._resumed is None and not self._held:
            (self._read if len(data) <= SLICE_BYTES else self._feed)(data)
        else:
            self._hold(data)

    def eof_received(self) -> bool:
        """The client says nothing more; mostly that is because it is gone, so nothing more is made for it."""
        return False

    def pause_writing(self) -> None:
        """The client does not read: make no more answers."""
        self._resumed = asyncio.Event()
        self._since_s = self._server.now_s
        self._output.pause()

    def resume_writing(self) -> None:
        assert self._resumed is not None, "it was paused"
        self._resumed.set()
        self._resumed = None
        self._output.resume()
        self._continue()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone: no client waits for an answer any more.

        References back to this connection are dropped: it would stay in memory until gc looks for cycles.
        """
        self._closing = True
        self._pending.clear()
        self._held.clear()
        self._output.close()
        if self._work is not None:
            self._work.cancel()
        if self._resumed is not None:
            self._resumed.set()
        self._reader.close()
        self._share.release()
        self._transport = None
        self._server.leave(self)

    # Requests

    def _feed(self, data: bytes) -> None:
        """Read requests and answer those that can be answered at once, so many that others have their turn as well."""
        while self._work is None and self._resumed is None and not self._closing and self._fault is None:
            size = BODY_SLICE_BYTES if self._reader.phase is ReaderPhase.BODY else SLICE_BYTES
            if len(data) <= size:
                self._read(data)
                return
            self._read(data[:size])
            data = data[size:]
            if self._reader.phase is not ReaderPhase.BODY:
                self._server.call_soon(self._continue)
                break
        if self._fault is None and not self._closing:
            self._hold(data)

    def _read(self, data: bytes) -> None:
        reader = self._reader
        if reader.phase is ReaderPhase.IDLE:
            self._since_s = self._server.now_s
        try:
            reader.feed(data)
        except LeveretError as error:
            self._refuse(error)
            return
        except Exception as error:
            self._refuse(self._internal(error, None))
            return
        if reader.phase is ReaderPhase.BODY:
            self._look_at_body(reader)
        elif self._body_bytes:
            self._count_body()

    def _count_body(self) -> None:
        size = self._reader.body_bytes
        self._share.add(size - self._body_bytes)
        self._body_bytes = size

    def _look_at_body(self, reader: RequestReader) -> None:
        """See that all requests together are not too much; when it is its turn, tell the client to send the body."""
        self._count_body()
        if self._share.is_exceeded:
            self._refuse(self._no_memory())
        elif self._work is None and self._resumed is None and not self._pending:
            request = reader.request
            assert request is not None, "it has a body"
            if reader.is_large and self._server.admits and not request.is_admitted:
                request.is_body_pending = True
                self._handle(request, False)
            elif reader.awaits_continue:
                reader.awaits_continue = False
                self._output.write(CONTINUE)

    def _decide(self, request: Request, answer: Response) -> None:
        """The handler has said by the headers whether the body is wanted."""
        self._forget()
        if not isinstance(answer, Admitted):
            self._refuse(answer)
            return
        request.is_body_pending = False
        request.is_admitted = True
        self._since_s = self._server.now_s
        try:
            if answer.body_bytes_max is not None:
                self._reader.limit_body(answer.body_bytes_max)
        except LeveretError as error:
            self._refuse(error)
        else:
            self._look_at_body(self._reader)

    def _no_memory(self) -> Refusal:
        NO_MEMORY.note(peer=self.peer)
        return Refusal(503, "the server has too many requests in memory: try again", (("Retry-After", "1"),))

    def _received(self, request: Request, keep_alive: bool) -> None:
        """A request is complete: answer it now, or after those before it."""
        self._served = True
        if self._work is None and self._resumed is None and not self._pending:
            self._handle(request, keep_alive)
        elif len(self._pending) < self._server.limits.pipelined_max:
            self._pending.append((request, keep_alive))
            self._share.add(request.size)
            if self._share.is_exceeded:
                raise self._no_memory()
        else:
            raise Refusal(429, f"over {self._server.limits.pipelined_max} requests wait for their turn: send less")

    def _handle(self, request: Request, keep_alive: bool) -> None:
        """Let the handler answer a request; whatever is logged meanwhile, by its tasks too, names it."""
        outside = AROUND.set(request.facts)
        try:
            answer = self._server.handler(request)
            if not isinstance(answer, Response):
                self._await(request, keep_alive, answer)
                return
        except Exception as error:
            answer = self._failed(error, request)
        finally:
            AROUND.reset(outside)
        if request.is_body_pending:
            self._decide(request, answer)
        else:
            self._answer(request, keep_alive, answer, self._output.write_soon)

    def _await(self, request: Request, keep_alive: bool, answer: Streamed | Awaitable[Answer]) -> None:
        """Go on when an answer is there, or, if it is a stream, when all of it was written."""
        self._current = (request, keep_alive)
        if not self._current_bytes:
            self._current_bytes = request.size
            self._share.add(self._current_bytes)
        if isinstance(answer, PendingAnswer):
            self._work = answer
            answer.add_done_callback(self._finished)
            return
        work: Awaitable[object] = self._stream(request, keep_alive, answer) if isinstance(answer, Streamed) else answer
        future = self._work = asyncio.ensure_future(work)
        future.add_done_callback(self._finished)

    def _finished(self, work: asyncio.Future[object] | PendingAnswer[Answer]) -> None:
        assert self._current is not None, "there was something to work on"
        self._work = None
        request, keep_alive = self._current
        cancelled = work.cancelled()
        error = None if cancelled else work.exception()
        if self._closing:
            return
        if cancelled:
            answer: object = self._failed(Refusal(503, "the server is stopping: try another one"), request)
        elif isinstance(error, Exception):
            answer = self._failed(error, request)
        else:
            answer = work.result()
        if isinstance(answer, Streamed):
            self._await(request, keep_alive, answer)
            return
        if answer is not STREAMED:
            if not isinstance(answer, Response):
                answer = self._failed(TypeError(f"a handler gave {type(answer)}"), request)
            if request.is_body_pending:
                self._decide(request, answer)
            else:
                self._answer(request, keep_alive, answer, self._output.write)
        self._continue()

    def _continue(self) -> None:
        """Go on with what came while something else was to be done."""
        while self._work is None and self._resumed is None and not self._closing:
            if self._pending:
                request, keep_alive = self._pending.popleft()
                self._share.add(-request.size)
                self._handle(request, keep_alive)
            elif self._fault is not None:
                self._write_fault(self._fault)
            elif self._held:
                self._feed(self._take_held())
                if self._held:
                    return
            else:
                if self._reader.phase is ReaderPhase.BODY:
                    self._look_at_body(self._reader)
                return

    def _hold(self, data: bytes) -> None:
        """Keep what comes while an answer is being made, and what is too much for one turn."""
        if not self._held:
            self._since_s = self._server.now_s
        self._held.append(data)
        self._held_bytes += len(data)
        self._share.add(len(data))
        if self._share.is_exceeded:
            self._refuse(self._no_memory())
        if self._held_bytes > HELD_BYTES_MAX and self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _take_held(self) -> bytes:
        """What was kept; when it was much, the client may send more."""
        data = b"".join(self._held)
        self._held.clear()
        self._share.add(-self._held_bytes)
        self._held_bytes = 0
        if not self._reading and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()
        return data

    # Answers

    def _answer(self, request: Request, keep_alive: bool, response: Response, write: Callable[[bytes], None]) -> None:
        """Write an answer; one that cannot be made is a failure of ours, and if that cannot be told, the end."""
        try:
            data = self._bytes(request, keep_alive, response)
        except Exception as error:
            try:
                data = self._bytes(request, keep_alive, self._failed(error, request))
            except Exception as second:
                self._internal(second, request)
                self.abort()
                return
        write(data)
        self._end(request, keep_alive)

    def _bytes(self, request: Request, keep_alive: bool, response: Response) -> bytes:
        status, body = response.status, response.body
        length = b"" if status in NO_BODY else b"Content-Length: %d\r\n" % len(body)
        head = self._head(request, keep_alive, status, response.content_type, response.headers, length)
        return head if request.method == "HEAD" or status in NO_BODY else head + body

    def _head(
        self, request: Request, keep_alive: bool, status: int, content_type: str | None, headers: Headers, length: bytes
    ) -> bytes:
        fields = field_lines(content_type, headers) if content_type or headers else b""
        if not keep_alive or self._server.draining:
            fields += b"Connection: close\r\n"
        elif request.version == "1.0":
            fields += b"Connection: keep-alive\r\n"
        if self._server.tells_requests:
            what = {"method": request.method, "path": request.shown_path, "status": status}
            LOG.debug("request answered", peer=self.peer, **what, **request.facts())
        if request.is_named:
            fields += b"X-Request-Id: %b\r\n" % request.id.encode()
        return self._server.heads[status] + fields + length + b"\r\n"

    def _end(self, request: Request, keep_alive: bool) -> None:
        """An answer was written; it may have been the last one."""
        self._forget()
        self._since_s = self._server.now_s
        if (not keep_alive or self._server.draining) and self._transport is not None:
            self._output.flush()
            self._closing = True
            self._transport.close()

    def _forget(self) -> None:
        """What was worked on is answered, or goes on with its body."""
        if self._current_bytes:
            self._share.add(-self._current_bytes)
            self._current_bytes = 0

    async def _stream(self, request: Request, keep_alive: bool, stream: Streamed) -> object:
        """Write an answer in parts; what fails in the middle ends the connection, so that no client takes it for
        all.
        """
        chunked = stream.length is None and request.version != "1.0"
        keep_alive = keep_alive and (chunked or stream.length is not None)
        length = b"Transfer-Encoding: chunked\r\n" if chunked else b""
        if stream.length is not None:
            length = b"Content-Length: %d\r\n" % stream.length
        head = self._head(request, keep_alive, stream.status, stream.content_type, stream.headers, length)
        self._output.write(head)
        try:
            async with aclosing(stream.parts) as parts:
                if request.method != "HEAD":
                    await self._write_parts(parts, chunked)
        except Exception as error:
            self._internal(error, request)
            self.abort()
            return STREAMED
        self._end(request, keep_alive)
        return STREAMED

    async def _write_parts(self, parts: AsyncIterator[bytes], chunked: bool) -> None:
        async for part in parts:
            if part:
                self._output.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            if self._resumed is not None:
                await self._resumed.wait()
        if chunked:
            self._output.write(LAST_CHUNK)

    def _failed(self, error: Exception, request: Request | None) -> Response:
        """The answer to a request that was refused, or that broke something."""
        try:
            return self._server.refuse(error if isinstance(error, LeveretError) else self._internal(error, request))
        except Exception as second:
            self._internal(second, request)
            return Response(500)

    def _internal(self, error: Exception, request: Request | None) -> Refusal:
        return internal(error, request, self.peer)

    # The end

    def _refuse(self, error: LeveretError | Response) -> None:
        """Answer what is no request after those before it, and read no more of them."""
        self._fault = error
        self._take_held()
        self._reader.discard()
        self._count_body()
        self._continue()

    def _write_fault(self, error: LeveretError | Response) -> None:
        """Say what was wrong and stop listening; the rest of it is read, because closing would destroy the answer."""
        assert self._transport is not None, "something was read from it"
        response = error if isinstance(error, Response) else self._failed(error, None)
        length = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(response.body)
        self._closing = True
        try:
            head = self._server.heads[response.status] + field_lines(response.content_type, response.headers)
        except Exception as second:
            self._internal(second, None)
            self.abort()
            return
        self._output.write(head + length + response.body)
        self._since_s = self._server.now_s
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _linger(self, size: int) -> None:
        """Throw away what comes after the end, not for ever."""
        self._lingered_bytes += size
        if self._lingered_bytes > LINGER_BYTES_MAX and self._closing:
            self.abort()

    def give_up(self) -> None:
        self._server.leave(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # From the server

    def drain(self) -> None:
        """Close if nothing is being done; otherwise the next answer is the last one."""
        if self.is_idle and self._transport is not None:
            self._output.flush()
            self._transport.close()

    @property
    def is_idle(self) -> bool:
        return self._work is None and not self._pending and self._reader.phase is ReaderPhase.IDLE

    @property
    def since_s(self) -> float:
        return self._since_s

    def check(self, now_s: float) -> None:
        limits, waited_s = self._server.limits, now_s - self._since_s
        if self._closing:
            if waited_s > limits.linger_s + (limits.write_s if self._resumed is not None else 0):
                self.abort()
        elif self._resumed is not None:
            if waited_s > limits.write_s:
                self.abort()
        elif self._work is not None or self._fault is not None:
            return
        elif self._reader.phase is ReaderPhase.HEAD:
            if waited_s > limits.head_s:
                self._refuse(Refusal(408, f"the headers took over {limits.head_s:g} s: send the request at once"))
        elif self._reader.phase is ReaderPhase.BODY:
            allowed_s = limits.time_for_body(self._reader.body_bytes)
            if waited_s > allowed_s:
                self._refuse(Refusal(408, f"the body took over {allowed_s:.3g} s: send it faster, or less at a time"))
        elif waited_s > (limits.idle_s if self._served else limits.head_s) and self._transport is not None:
            self._transport.close()
