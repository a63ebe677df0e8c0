"""Answers of HTTP/1.1 in Python alone, with the interface of httptools."""

import re
from collections.abc import Generator
from typing import Protocol

LINE_BYTES_MAX = 1 << 20
"""Of a head, and of the line before a chunk: nothing is kept that does not end."""
NO_BODY = (204, 304)
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: .*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;.*)?")


class HttpParserError(Exception):
    """What came is no answer."""


class AnswerCallbacks(Protocol):
    """Who is told of the parts of answers."""

    def on_header(self, name: bytes, value: bytes) -> None: ...

    def on_headers_complete(self) -> None: ...

    def on_body(self, data: bytes) -> None: ...

    def on_message_complete(self) -> None: ...


class HttpResponseParser:
    """Takes bytes as they come."""

    def __init__(self, told: AnswerCallbacks) -> None:
        self._told, self._data = told, bytearray()
        self._status, self._lasting = 0, False
        self._parsing = self._answers()

    def feed_data(self, data: bytes) -> None:
        """Tell of what is in these bytes; HttpParserError."""
        self._data += data
        next(self._parsing)

    def get_status_code(self) -> int:
        return self._status

    def should_keep_alive(self) -> bool:
        return self._lasting

    def _answers(self) -> Generator[None]:
        while True:
            size = yield from self._head()
            if size is None:
                yield from self._chunks()
            else:
                yield from self._body(size)
            self._told.on_message_complete()

    def _head(self) -> Generator[None, None, float | None]:
        """The head of an answer; gives the length of its body, None if it comes in chunks."""
        first, *lines = (yield from self._until(b"\r\n\r\n")).split(b"\r\n")
        if (status := _STATUS.fullmatch(first)) is None:
            raise HttpParserError("it does not begin with a status")
        headers: dict[bytes, bytes] = {}
        for line in lines:
            if (header := _HEADER.fullmatch(line)) is None or headers.get(header[1].lower(), header[2]) != header[2]:
                raise HttpParserError("a header is not as it has to be")
            headers[header[1].lower()] = header[2]
            self._told.on_header(header[1], header[2])
        self._status = int(status[2])
        length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
        if coding not in (None, b"chunked") or (length is not None and (coding or not length.isdigit())):
            raise HttpParserError("the length of its body is unclear")
        connection = headers.get(b"connection", b"").lower()
        empty = self._status < 200 or self._status in NO_BODY
        ends = empty or length is not None or coding is not None
        self._lasting = ends and connection != b"close" and (status[1] == b"1" or connection == b"keep-alive")
        self._told.on_headers_complete()
        if empty:
            return 0
        return None if coding else int(length) if length is not None else float("inf")

    def _chunks(self) -> Generator[None]:
        size = 1
        while size:
            if (told := _CHUNK.fullmatch((yield from self._until(b"\r\n")))) is None:
                raise HttpParserError("a chunk has no length")
            size = int(told[1], 16)
            yield from self._body(size)
            if size and (yield from self._until(b"\r\n")):
                raise HttpParserError("a chunk is longer than it says")
        while (yield from self._until(b"\r\n")):
            """What comes after the last chunk says nothing here."""

    def _body(self, size: float) -> Generator[None]:
        while size:
            while not self._data:
                yield
            part = bytes(self._data if len(self._data) <= size else self._data[: int(size)])
            del self._data[: len(part)]
            size -= len(part)
            self._told.on_body(part)

    def _until(self, mark: bytes) -> Generator[None, None, bytes]:
        """What comes before a mark."""
        start = 0
        while (at := self._data.find(mark, start)) < 0:
            if len(self._data) > LINE_BYTES_MAX:
                raise HttpParserError("a head or a line does not end")
            start = max(0, len(self._data) - len(mark) + 1)
            yield
        found = bytes(self._data[:at])
        del self._data[: at + len(mark)]
        return found
