"""Answers, the bytes that they become, and how those are written: small ones of one turn of the loop together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson

from leveret.clock import Clock

if TYPE_CHECKING:
    from leveret.protocols.http.limits import MemoryShare


Headers = Sequence[tuple[str, str]]

JSON = "application/json"
NO_BODY = frozenset((204, 304))
REASONS = {status.value: status.phrase for status in HTTPStatus}
POLICY = "default-src 'self'; img-src 'self' data:"
"""What the pages of this server may load: their own files."""
ALWAYS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
OUTPUT_BYTES_HIGH = 262_144  # of answers that the client has not read, before no more are made
SMALL_BYTES_MAX = 65_536  # of answers that may wait for the end of the turn


@dataclass(slots=True, eq=False)
class Response:
    """An answer with its body at hand. HEAD, keep-alive, Date and Content-Length are the connection's business."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = None
    headers: Headers = ()


class Admitted(Response):
    """Says that the body of a request is wanted; never sent."""

    __slots__ = ("body_bytes_max",)

    def __init__(self, body_bytes_max: int | None = None) -> None:
        """Read the body, if it has at most so many bytes; None: as many as the server takes."""
        super().__init__(100)
        self.body_bytes_max = body_bytes_max


@dataclass(slots=True, eq=False)
class Streamed:
    """An answer whose body comes in parts, for what is too large to be in memory at once.

    `length` is the number of bytes if it is known. The parts are asked for as fast as the client reads them.
    """

    parts: AsyncGenerator[bytes, None]
    content_type: str | None = None
    headers: Headers = ()
    status: int = field(default=200, kw_only=True)
    length: int | None = field(default=None, kw_only=True)


Answer = Response | Streamed
Answered = Answer | Awaitable[Answer]
"""An answer, at once or as soon as it is known."""


def json_response(value: Any, status: int = 200, headers: Headers = (), content_type: str = JSON) -> Response:
    """An answer in JSON."""
    try:
        body = orjson.dumps(value)
    except TypeError:
        # What only Python's own can say: very large numbers, very deep nesting.
        body = json.dumps(value, separators=(",", ":")).encode()
    return Response(status, body, content_type, headers)


class Heads(dict[int, bytes]):
    """The lines that all answers with a status begin with; to be cleared once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __missing__(self, status: int) -> bytes:
        line = f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}"
        date = formatdate(self._clock.now_ms() / 1000, usegmt=True)
        self[status] = f"{line}\r\nServer: Leveret\r\nDate: {date}\r\n".encode()
        return self[status]


def field_lines(content_type: str | None, headers: Headers) -> bytes:
    """Headers as bytes. A line break in one would be the end of it and the begin of another, which is never meant."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if content_type is not None:
        lines = f"Content-Type: {content_type}\r\n{lines}"
    if lines.count("\n") != len(headers) + (content_type is not None) or lines.count("\r") != lines.count("\n"):
        raise ValueError("a header has a line break in it")
    return lines.encode("latin-1")


def page_headers(policy: str = POLICY, *, framed: bool = False) -> Headers:
    """Headers for a page that may load what `policy` says; `framed`: inside of our own pages too."""
    ancestors = "'self'" if framed else "'none'"
    common = f"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors {ancestors}"
    content = ("Content-Security-Policy", f"{policy}; {common}")
    if framed:
        # Without Cross-Origin-Opener-Policy: browsers refuse to open a page that is also in a sandbox.
        return (content, ("X-Frame-Options", "SAMEORIGIN"), *ALWAYS)
    return (content, ("X-Frame-Options", "DENY"), *ALWAYS, ("Cross-Origin-Opener-Policy", "same-origin"))


class Output:
    """The bytes on their way to a client."""

    def __init__(self, call_soon: Callable[[Callable[[], object]], Any], share: MemoryShare) -> None:
        self._call_soon = call_soon
        self._share = share
        self._transport: asyncio.Transport | None = None
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._paused = False

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)

    def write_soon(self, data: bytes) -> None:
        """Write at the end of this turn of the loop: a client that reads many answers is woken once, not for each."""
        self._unwritten_bytes += len(data)
        if self._unwritten_bytes > SMALL_BYTES_MAX:
            self.write(data)
            return
        if not self._unwritten:
            self._call_soon(self.flush)
        self._unwritten.append(data)

    def flush(self) -> None:
        if self._unwritten:
            data = b"".join(self._unwritten)
            self._unwritten.clear()
            self.write(data)

    def write(self, data: bytes) -> None:
        """Write now, after what was to be written soon."""
        if self._unwritten:
            self.flush()
        self._unwritten_bytes = 0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            if self._paused:
                self._count()

    def pause(self) -> None:
        self._paused = True
        self._count()

    def resume(self) -> None:
        self._paused = False
        self._share.set_unread(0)

    def close(self) -> None:
        self._unwritten.clear()
        self._paused = False
        self._transport = None

    def _count(self) -> None:
        """Tell how much is unread; of all connections together that may be too much, and close this one."""
        assert self._transport is not None, "something was written to it"
        self._share.set_unread(self._transport.get_write_buffer_size())
