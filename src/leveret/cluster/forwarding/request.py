"""Requests that a node forwards to the node that answers them: a stream of their link for each.

    asks:    OPEN edge, shard or none, version of the catalog, request (JSON) | DATA body, in pieces
    answers: DATA status, content type, headers (JSON), line feed, begin of the body | DATA more of it | CLOSE

A CLOSE before any answer says that nothing was done; one with a reason, after the answer has begun, that some of it is
missing. Credentials stay on the node that they came to: the request has the identity of its user.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any

from leveret.cluster.rpc.link import PeerLink
from leveret.cluster.rpc.wire import packed, unpacked
from leveret.core.errors import InvalidArgument, LeveretError, Unreachable
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Answer, Response, Streamed
from leveret.runtime.durability import PendingAnswer
from leveret.security.identity import Identity

BODY_BYTES_MAX = 64 << 20  # of one request or answer, more than any server lets in
PIECE_BYTES = 256 << 10  # of a body: what others say comes in between
SECRET_HEADERS = frozenset((b"authorization", b"cookie", b"x-amz-security-token"))
NOTHING = Response(500)  # in the place of an answer that has not come
UNREAD_BYTES_HIGH = 1 << 20  # of a stream that the client does not read, before the other node is told to pause
Find = Callable[[Exception | None], Coroutine[Any, Any, Answer]]


def request_head(request: Request) -> dict[str, Any]:
    """All of a request but its body and the credentials of its sender."""
    identity, peer = request.identity, request.peer
    return {
        "method": request.method,
        "target": request.target.decode("latin-1"),
        "headers": {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in request.headers.items()
            if name not in SECRET_HEADERS
        },
        "peer": [peer.host, peer.port, peer.tls, peer.certificate_name],
        "version": request.version,
        "identity": None if identity is None else identity.to_list(),
        "size": len(request.body),
    }


def request_of(head: dict[str, Any]) -> tuple[Request, int]:
    """The reverse: a request, and the size of its body; raises InvalidArgument for a head that is none."""
    try:
        headers = {name.encode("latin-1"): value.encode("latin-1") for name, value in head["headers"].items()}
        target = head["target"].encode("latin-1")
        request = Request(str(head["method"]), target, headers, HttpPeer(*head["peer"]), str(head["version"]))
        if head["identity"] is not None:
            request.identity = Identity.from_list(head["identity"])
        size = int(head["size"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(f"no request: {error}") from None
    if not 0 <= size <= BODY_BYTES_MAX:
        raise InvalidArgument(f"a request of {size} bytes from another node: at most {BODY_BYTES_MAX}")
    return request, size


def answer_head(answer: Response | Streamed) -> bytes:
    """All of an answer but its body."""
    head: dict[str, Any] = {"status": answer.status, "type": answer.content_type, "headers": list(answer.headers)}
    if isinstance(answer, Streamed):
        head["parts"], head["length"] = True, answer.length
    return packed(head) + b"\n"


def answer_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The head of an answer, and the begin of its body."""
    line, _, rest = data.partition(b"\n")
    try:
        head = unpacked(line)
        head["headers"] = tuple((str(name), str(value)) for name, value in head["headers"])
        head["status"] = int(head["status"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"no answer: {error}") from None
    return head, rest


class NotDone(LeveretError):
    """The other node has done nothing: it may be asked again, or another one."""


class ForwardedRequest(PendingAnswer[Response | Streamed]):
    """A request that was sent to another node; it is done when the answer has come, or the begin of one in parts."""

    def __init__(self, link: PeerLink, head: dict[str, Any], request: Request) -> None:
        """Send a request; `head` names the shard and the API that answer it."""
        super().__init__(NOTHING)
        self._link = link
        self._head: dict[str, Any] | None = None
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
        """The answer of the other node; raises NotDone if it did nothing, and Unreachable if that is unknown."""
        try:
            return await self
        except BaseException:
            self.close()
            raise

    def cancel(self) -> None:
        super().cancel()
        self.close()

    def close(self) -> None:
        """End the stream: no answer is needed any more."""
        self._link.end(self._number)

    def _finish_with(self, answer: Response | Streamed) -> None:
        self._value = answer
        self.finish()

    # From the link

    def heard(self, data: bytes) -> None:
        """Take more of the answer; bytes that are none end the request."""
        try:
            if self._head is None:
                self._head, data = answer_of(data)
                if self._head.get("parts"):
                    self._begin_stream(self._head)
            self._take(data)
        except InvalidArgument as error:
            self.close()
            self.ended(str(error))

    def _begin_stream(self, head: dict[str, Any]) -> None:
        if not self.done:
            self._stirred = asyncio.Event()
            parts = self._read(self._stirred)
            self._finish_with(
                Streamed(parts, head["type"], head["headers"], status=head["status"], length=head["length"])
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
        """Nothing waits: the request was sent as a whole."""

    def ended(self, reason: str) -> None:
        """The other node has sent all of its answer, or will send no more of it."""
        self._end = reason
        self._stir()
        if self.done:
            return
        if self._head is None and self._link.is_up:
            self.finish(NotDone(reason))
        elif self._head is None or reason:
            self.finish(Unreachable(f"node '{self._link.peer}' was lost before it had answered"))
        else:
            body, head = b"".join(self._parts), self._head
            self._finish_with(Response(head["status"], body, head["type"], head["headers"]))

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


class PendingForward(PendingAnswer[Answer]):
    """A request to a shard that another node has; mostly that node answers, and the request needs no task.

    asked ---- answered -------------------------------------------> done
      '------- no node to ask, not done, or lost ----> a task finds the next owner -> done
    """

    def __init__(
        self, find: Find, ended: Callable[[PendingForward], None], sent_request: ForwardedRequest | None
    ) -> None:
        """`find` asks the next owner; without a request that was sent it asks the first one, too.

        `ended` is called when the answer is there or not needed any more.
        """
        super().__init__(NOTHING)
        self._find = find
        self._ended = ended
        self._work: ForwardedRequest | asyncio.Task[Answer]
        if sent_request is None:
            self._start(None)
        else:
            self._work = sent_request
            sent_request.add_done_callback(self._answered)

    def cancel(self) -> None:
        if not self.done:
            super().cancel()
            self._work.cancel()
            self._ended(self)

    def cut_off(self) -> None:
        """Refuse the request, because this node stops: the client asks another node."""
        self._work.cancel()
        self._finish(Refusal(503, "the server is stopping: try another one"))

    def __await__(self) -> Generator[object, None, Answer]:
        """See PendingAnswer; a task that is cancelled cancels the request."""
        try:
            return (yield from super().__await__())
        except BaseException:
            self.cancel()
            raise

    def _start(self, error: Exception | None) -> None:
        self._work = task = asyncio.ensure_future(self._find(error))
        task.add_done_callback(self._found)

    def _answered(self, sent_request: PendingAnswer[Answer]) -> None:
        error = sent_request.exception()
        if isinstance(error, NotDone | Unreachable):
            self._start(error)
        else:
            self._take(sent_request)

    def _found(self, task: asyncio.Task[Answer]) -> None:
        if not task.cancelled():
            self._take(task)

    def _take(self, work: PendingAnswer[Answer] | asyncio.Task[Answer]) -> None:
        error = work.exception()
        if error is None:
            self._value = work.result()
        assert error is None or isinstance(error, Exception), "a task that was cancelled has none"
        self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        self._ended(self)
        self.finish(error)
