"""The owner's end of a forwarded request: the APIs that answer it, by name, and how the answer is sent back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leveret.cluster.forwarding.request import PIECE_BYTES, answer_head
from leveret.core.errors import LeveretError
from leveret.observability.logs import AROUND, Log
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answer, Response, Streamed
from leveret.protocols.http.server import Handler, Refuse
from leveret.runtime.durability import PendingAnswer
from leveret.runtime.runtime import Runtime

if TYPE_CHECKING:
    from leveret.cluster.rpc.link import PeerLink


class Api(NamedTuple):
    """One API. Its requests have their identity; `refuse` makes an answer of an error that it raises."""

    handler: Handler
    refuse: Refuse


class Apis(Protocol):
    """The APIs of one shard."""

    by_name: Mapping[str, Api]

    def describe(self, kind: str, vhost: str, name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """A queue or stream as an API shows it; None: the shard does not have it."""

    def close(self) -> None:
        """Answer the requests that wait for something in the shard: this node serves it no more."""


class NoApis:
    """The APIs of a shard that answers AMQP only: none."""

    by_name: Mapping[str, Api] = {}

    def describe(self, kind: str, vhost: str, name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        return None

    def close(self) -> None:
        """No request waits."""


MakeApis = Callable[[str, Runtime], Apis]
"""Makes the APIs of a shard, given its id and its runtime."""


def no_apis(shard_id: str, runtime: Runtime) -> Apis:
    """No APIs."""
    return NoApis()


LOG = Log("node")


class ForwardedHandler:
    """One request, from the first byte of its body to the last one of its answer."""

    def __init__(
        self,
        link: PeerLink,
        number: int,
        edge: Api,
        request: Request,
        size: int,
        done: Callable[[ForwardedHandler], None],
    ) -> None:
        """Answer when the body has come; `done` is called at the end."""
        self.size = size
        self._link = link
        self._number = number
        self._edge = edge
        self._request = request
        self._done = done
        self._body = bytearray()
        self._begun = False
        self._over = False
        self._work: asyncio.Future[object] | PendingAnswer[Answer] | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()
        if not size:
            asyncio.get_running_loop().call_soon(self._begin)

    # From the link

    def heard(self, data: bytes) -> None:
        self._body += data
        if not self._begun and len(self._body) >= self.size:
            self._begin()

    def paused(self, paused: bool) -> None:
        """Pause the answer while the other node takes no more of it, or resume it."""
        self._resumed.clear() if paused else self._resumed.set()

    def ended(self, reason: str) -> None:
        """Cancel the work: the client or its node has disconnected."""
        self._over = True
        if self._work is not None:
            self._work.cancel()
        self._done(self)

    # The answer

    def _begin(self) -> None:
        """Call the handler; what it and its tasks log names the request."""
        if self._begun or self._over:
            return
        self._begun = True
        self._request.body = bytes(self._body)
        outside = AROUND.set(self._request.facts)
        try:
            answer = self._edge.handler(self._request)
            if isinstance(answer, Response):
                self._send(answer)
            else:
                self._await(answer)
        except Exception as error:
            self._send(self._failed(error))
        finally:
            AROUND.reset(outside)

    def _await(self, answer: Streamed | Awaitable[Answer]) -> None:
        """Go on when the answer has come, or when all of one in parts was sent."""
        if isinstance(answer, PendingAnswer):
            self._work = answer
            answer.add_done_callback(self._finished)
            return
        work: Awaitable[object] = self._stream(answer) if isinstance(answer, Streamed) else answer
        future = self._work = asyncio.ensure_future(work)
        future.add_done_callback(self._finished)

    def _finished(self, work: asyncio.Future[object] | PendingAnswer[Answer]) -> None:
        if self._over:
            if not work.cancelled():
                work.exception()  # the caller has disconnected
            return
        error = None if work.cancelled() else work.exception()
        if work.cancelled():
            answer: object = self._failed(Refusal(503, "the server is stopping: try another one"))
        elif isinstance(error, Exception):
            answer = self._failed(error)
        else:
            answer = work.result()
        if isinstance(answer, Streamed):
            self._await(answer)
        elif isinstance(answer, Response):
            self._send(answer)

    def _send(self, answer: Response) -> None:
        body = answer.body
        self._link.send(self._number, answer_head(answer) + body[:PIECE_BYTES])
        for start in range(PIECE_BYTES, len(body), PIECE_BYTES):
            self._link.send(self._number, body[start : start + PIECE_BYTES])
        self._end()

    async def _stream(self, stream: Streamed) -> None:
        """Send an answer in parts, as fast as the other node takes them."""
        self._link.send(self._number, answer_head(stream))
        reason = ""
        try:
            async with aclosing(stream.parts) as parts:
                if self._request.method != "HEAD":
                    async for part in parts:
                        self._link.send(self._number, part)
                        if self._link.is_slow:
                            self._resumed.clear()
                        await self._resumed.wait()
        except Exception as error:
            self._internal(error)
            reason = "it failed"
        self._end(reason)

    def _end(self, reason: str = "") -> None:
        self._over = True
        self._link.end(self._number, reason)
        self._done(self)

    def _failed(self, error: Exception) -> Response:
        try:
            return self._edge.refuse(error if isinstance(error, LeveretError) else self._internal(error))
        except Exception as second:
            self._internal(second)
            return Response(500)

    def _internal(self, error: Exception) -> Refusal:
        """Log an error of the server; the refusal names the request in the log."""
        request = self._request
        what = {"method": request.method, "path": request.shown_path, **request.facts()}
        LOG.error("request failed", error, peer=self._link.peer, **what)
        return Refusal(500, f"the server failed; the log of its node says how, under request {what['request']}")
