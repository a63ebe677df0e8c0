"""A request on its way to another node, and its answer on the way back: the end of the one who asks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from leveret.cluster.forwarding.codec import BODY_BYTES_MAX, PIECE_BYTES, answer_of, request_head
from leveret.cluster.rpc.link import PeerLink
from leveret.core.errors import InvalidArgument, LeveretError, Unreachable
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response, Streamed
from leveret.runtime.pending import PendingAnswer

NOTHING = Response(500)  # in the place of an answer that has not come
UNREAD_BYTES_HIGH = 1 << 20  # of a stream that the client does not read, before the other node is told to pause


class NotDone(LeveretError):
    """The other node has done nothing: it may be asked again, or another one."""


class ForwardedRequest(PendingAnswer[Response | Streamed]):
    """One request; it is done when the answer is here, or the begin of one in parts."""

    def __init__(self, link: PeerLink, head: dict[str, Any], request: Request) -> None:
        """Ask another node; `head` says what it is to be answered by."""
        super().__init__(NOTHING)
        self._link = link
        self._told: dict[str, Any] | None = None
        self._parts: deque[bytes] = deque()
        self._unread_bytes = 0
        self._pausing = False
        self._stirred: asyncio.Event | None = None  # of an answer in parts
        self._end: str | None = None
        self._number = link.open({**head, **request_head(request)}, self)
        body = request.body
        for start in range(0, len(body), PIECE_BYTES):
            link.send(self._number, body[start : start + PIECE_BYTES])

    async def answer(self) -> Response | Streamed:
        """What the other node answers. NotDone: nothing; Unreachable: that is unknown."""
        try:
            return await self
        except BaseException:
            self.close()
            raise

    def cancel(self) -> None:
        super().cancel()
        self.close()

    def close(self) -> None:
        """The answer is not waited for any more."""
        self._link.end(self._number)

    def _finish_with(self, answer: Response | Streamed) -> None:
        self._value = answer
        self.finish()

    # From the link

    def heard(self, data: bytes) -> None:
        """More of the answer; what is none ends it."""
        try:
            if self._told is None:
                self._told, data = answer_of(data)
                if self._told.get("parts"):
                    self._begin_stream(self._told)
            self._take(data)
        except InvalidArgument as error:
            self.close()
            self.ended(str(error))

    def _begin_stream(self, told: dict[str, Any]) -> None:
        if not self.done:
            self._stirred = asyncio.Event()
            parts = self._read(self._stirred)
            self._finish_with(
                Streamed(parts, told["type"], told["headers"], status=told["status"], length=told["length"])
            )

    def _take(self, data: bytes) -> None:
        self._parts.append(data)
        self._unread_bytes += len(data)
        self._stir()
        if not self.done:
            if self._unread_bytes > BODY_BYTES_MAX:
                raise InvalidArgument(f"an answer of over {BODY_BYTES_MAX} bytes from another node")
        elif self._unread_bytes > UNREAD_BYTES_HIGH and not self._pausing:
            self._pausing = True
            self._link.pause(self._number, True)

    def paused(self, paused: bool) -> None:
        """The request is sent already."""

    def ended(self, reason: str) -> None:
        """The answer is whole, or will never be."""
        self._end = reason
        self._stir()
        if self.done:
            return
        if self._told is None and self._link.is_up:
            self.finish(NotDone(reason))
        elif self._told is None or reason:
            self.finish(Unreachable(f"node '{self._link.peer}' was lost before it had answered"))
        else:
            body, told = b"".join(self._parts), self._told
            self._finish_with(Response(told["status"], body, told["type"], told["headers"]))

    def _stir(self) -> None:
        if self._stirred is not None:
            self._stirred.set()

    # For the client

    async def _read(self, stirred: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """The parts of a stream, as fast as the client reads them."""
        try:
            while self._parts or self._end is None:
                while self._parts:
                    part = self._parts.popleft()
                    self._unread_bytes -= len(part)
                    yield part
                if self._pausing:
                    self._pausing = False
                    self._link.pause(self._number, False)
                stirred.clear()
                if self._end is None:
                    await stirred.wait()
            if self._end:
                raise Unreachable(f"node '{self._link.peer}' was lost in the middle of an answer: {self._end}")
        finally:
            self.close()
