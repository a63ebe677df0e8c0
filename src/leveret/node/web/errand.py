"""A request on its way to another node, and its answer on the way back: the end of the one who asks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from leveret.core.errors import InvalidArgument, LeveretError, Unreachable
from leveret.http.request import Request
from leveret.http.response import Response, Stream
from leveret.node.link import Link
from leveret.node.web.parcels import BODY_BYTES_MAX, PIECE_BYTES, answer_of, request_head

UNREAD_BYTES_HIGH = 1 << 20  # of a stream that the client does not read, before the other node is told to pause


class NotDone(LeveretError):
    """The other node has done nothing: it may be asked again, or another one."""


class Errand:
    """One request."""

    def __init__(self, link: Link, head: dict[str, Any], request: Request) -> None:
        """Ask another node; `head` says what it is to be answered by."""
        self._link = link
        self._answer: asyncio.Future[Response | Stream] = asyncio.get_running_loop().create_future()
        self._told: dict[str, Any] | None = None
        self._parts: deque[bytes] = deque()
        self._unread_bytes = 0
        self._pausing = False
        self._stirred = asyncio.Event()
        self._end: str | None = None
        self._number = link.open({**head, **request_head(request)}, self)
        body = request.body
        for start in range(0, len(body), PIECE_BYTES):
            link.send(self._number, body[start : start + PIECE_BYTES])

    async def answer(self) -> Response | Stream:
        """What the other node answers. NotDone: nothing; Unreachable: nobody knows."""
        try:
            answer = await self._answer
        except BaseException:
            self.close()
            raise
        return answer

    def close(self) -> None:
        """Nobody waits for the answer any more."""
        self._link.end(self._number)

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
        if not self._answer.done():
            parts = Stream(self._read(), told["type"], told["headers"], status=told["status"], length=told["length"])
            self._answer.set_result(parts)

    def _take(self, data: bytes) -> None:
        self._parts.append(data)
        self._unread_bytes += len(data)
        self._stirred.set()
        if not self._answer.done():
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
        self._stirred.set()
        if self._answer.done():
            return
        if self._told is None and self._link.is_up:
            self._answer.set_exception(NotDone(reason))
        elif self._told is None or reason:
            self._answer.set_exception(Unreachable(f"node '{self._link.peer}' was lost before it had answered"))
        else:
            body, told = b"".join(self._parts), self._told
            self._answer.set_result(Response(told["status"], body, told["type"], told["headers"]))

    # For the client

    async def _read(self) -> AsyncGenerator[bytes, None]:
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
                self._stirred.clear()
                if self._end is None:
                    await self._stirred.wait()
            if self._end:
                raise Unreachable(f"node '{self._link.peer}' was lost in the middle of an answer: {self._end}")
        finally:
            self.close()
