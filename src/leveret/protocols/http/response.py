"""Answers, and the bytes that they become."""

import json
from collections.abc import AsyncGenerator, Sequence
from http import HTTPStatus
from typing import Any

import orjson

Headers = Sequence[tuple[str, str]]

JSON = "application/json"
NO_BODY = frozenset((204, 304))
REASONS = {status.value: status.phrase for status in HTTPStatus}


class Response:
    """An answer with its body at hand. HEAD, keep-alive, Date and Content-Length are the connection's business."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self, status: int = 200, body: bytes = b"", content_type: str | None = None, headers: Headers = ()
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers


class Admitted(Response):
    """Says that the body of a request is wanted; never sent."""

    __slots__ = ("body_bytes_max",)

    def __init__(self, body_bytes_max: int | None = None) -> None:
        """Read the body, if it has at most so many bytes; None: as many as the server takes."""
        super().__init__(100)
        self.body_bytes_max = body_bytes_max


class Streamed:
    """An answer whose body comes in parts, for what is too large to be in memory at once.

    `length` is the number of bytes if it is known. The parts are asked for as fast as the client reads them.
    """

    __slots__ = ("content_type", "headers", "length", "parts", "status")

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None],
        content_type: str | None = None,
        headers: Headers = (),
        *,
        status: int = 200,
        length: int | None = None,
    ) -> None:
        self.status = status
        self.parts = parts
        self.content_type = content_type
        self.headers = headers
        self.length = length


def json_response(value: Any, status: int = 200, headers: Headers = (), content_type: str = JSON) -> Response:
    """An answer in JSON."""
    try:
        body = orjson.dumps(value)
    except TypeError:
        # What only Python's own can say: very large numbers, very deep nesting.
        body = json.dumps(value, separators=(",", ":")).encode()
    return Response(status, body, content_type, headers)


def status_line(status: int) -> bytes:
    """The first line of an answer."""
    return f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}\r\n".encode()


def field_lines(content_type: str | None, headers: Headers) -> bytes:
    """Headers as bytes. A line break in one would be the end of it and the begin of another, which is never meant."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if content_type is not None:
        lines = f"Content-Type: {content_type}\r\n{lines}"
    if lines.count("\n") != len(headers) + (content_type is not None) or lines.count("\r") != lines.count("\n"):
        raise ValueError("a header has a line break in it")
    return lines.encode("latin-1")
