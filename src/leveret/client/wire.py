"""HTTP/1.1 as a client speaks it: requests to bytes, bytes to answers. No sockets: threads and asyncio share it."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import httptools

from leveret.core.errors import Unreachable

ANSWER_BYTES_MAX = 1 << 30  # a server that sends more is not one of ours
HEADERS_MAX = 200


class Answer(NamedTuple):
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Its body."""
        try:
            return json.loads(self.body) if self.body else {}
        except (ValueError, RecursionError):
            raise Unreachable("the answer is not JSON: check that the URL is that of a Leveret server") from None


class AnswerReader:
    """Takes the bytes of one connection, answer after answer."""

    def __init__(self) -> None:
        """Wait for the first one."""
        self.keep_alive = False
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._complete = False
        self.begun = False
        """Whether anything of an answer has come."""

    def feed(self, data: bytes) -> Answer | None:
        """The answer, when it is complete."""
        self.begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise Unreachable(f"the answer is not HTTP ({error}): check the URL") from None
        return self._finish() if self._complete else None

    def _finish(self) -> Answer:
        answer = Answer(self._parser.get_status_code(), self._headers, b"".join(self._parts))
        self._begin()
        return answer

    # From the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came."""
        if len(self._headers) >= HEADERS_MAX:
            raise httptools.HttpParserError("too many headers")
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        """A part of the body came."""
        self._size += len(data)
        if self._size > ANSWER_BYTES_MAX:
            raise httptools.HttpParserError("too large")
        self._parts.append(data)

    def on_message_complete(self) -> None:
        """All of it came; an interim answer (100) is not one."""
        if self._parser.get_status_code() >= 200:
            self._complete = True
            self.keep_alive = self._parser.should_keep_alive()
        else:
            self._headers = {}


def request_bytes(method: str, path: str, head: str, body: Any, key: str | None) -> bytes:
    """A request; `head` are the lines that all requests of a client have. Bytes are sent as they are."""
    is_bytes = isinstance(body, bytes)
    data = body if is_bytes else b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    lines = f"{method} {path} HTTP/1.1\r\n{head}"
    if key is not None:
        lines += f"Idempotency-Key: {key}\r\n"
    if data or method in ("POST", "PUT", "PATCH"):
        kind = "octet-stream" if is_bytes else "json"
        lines += f"Content-Type: application/{kind}\r\nContent-Length: {len(data)}\r\n"
    return f"{lines}\r\n".encode() + data
