"""A reader of HTTP requests without sockets, and what must hold whatever bytes come.

The pieces in which bytes come change nothing: neither the requests nor whether the rest is refused. What is no request
is refused with 4xx, nothing else is raised, and no limit is passed. Each request ends where a plain reading of RFC 9112
says that it ends: a server that sees another end than the proxy before it gets requests that the proxy did not see.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from leveret.protocols.http.limits import HttpLimits
from leveret.protocols.http.reader import ReaderPhase, RequestReader
from leveret.protocols.http.request import HttpPeer, Refusal, Request

LIMITS = HttpLimits(
    target_bytes_max=200,
    headers_max=20,
    head_bytes_max=2_000,
    body_bytes_max=2_000,
    trailers_max=5,
    trailer_bytes_max=200,
    extensions_max=5,
    extension_bytes_max=200,
)
PIECES_BYTES = (1, 2, 3, 7, 50, 1_000)
IN_HEAD = frozenset((400, 405, 414, 417, 431))
"""Refusals of a head: which of several faults is found first depends on the pieces."""
CHUNK = re.compile(rb"([0-9a-fA-F]{1,16})(?:;[^\r\n]*)?\r\n")
TRAILERS = re.compile(rb"(?:[^\r\n]+\r\n)*\r\n")

Message = tuple[str, bytes, bytes]


class Outcome(NamedTuple):
    """What became of some bytes."""

    requests: list[tuple[Message, bool]]
    status: int | None
    """Of what is no request; None: all is read, or waits for more."""
    phase: ReaderPhase | None


def read(pieces: list[bytes]) -> Outcome:
    """Feed a reader."""
    requests: list[tuple[Message, bool]] = []

    def received(request: Request, keep_alive: bool) -> None:
        requests.append(((request.method, request.target, request.body), keep_alive))
        assert len(request.target) <= LIMITS.target_bytes_max
        assert len(request.body) <= LIMITS.body_bytes_max
        assert len(request.headers) <= LIMITS.headers_max
        assert sum(map(len, request.headers.values())) <= LIMITS.head_bytes_max + 2 * LIMITS.headers_max

    reader = RequestReader(LIMITS, HttpPeer("127.0.0.1", 1), received)
    try:
        for piece in pieces:
            reader.feed(piece)
            assert reader.body_bytes <= LIMITS.body_bytes_max
    except Refusal as refusal:
        return Outcome(requests, refusal.status, None)
    return Outcome(requests, None, reader.phase)


def cut(data: bytes, size: int) -> list[bytes]:
    """The same bytes in pieces of a size."""
    return [data[place : place + size] for place in range(0, len(data), size)]


def model(data: bytes) -> list[Message]:
    """The requests in some bytes, as RFC 9112 frames them; it stops at what it does not understand."""
    found: list[Message] = []
    place = 0
    while True:
        while data[place : place + 1] in (b"\r", b"\n"):
            place += 1
        end = data.find(b"\r\n\r\n", place)
        if end < 0:
            return found
        first, *lines = data[place:end].split(b"\r\n")
        method, target, *_ = (*first.split(b" "), b"", b"")
        fields = [(name.lower(), value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)]
        lengths = [value for name, value in fields if name == b"content-length"]
        codings = [value.lower() for name, value in fields if name == b"transfer-encoding"]
        body = _body(data, end + 4, lengths, codings)
        if body is None:
            return found
        content, place = body
        found.append((method.decode("latin-1"), target, content))


def _body(data: bytes, place: int, lengths: list[bytes], codings: list[bytes]) -> tuple[bytes, int] | None:
    """A body and the index behind it; None: it is not complete, or nobody could say where it ends."""
    if codings:
        return _chunks(data, place) if codings == [b"chunked"] and not lengths else None
    if not lengths:
        return b"", place
    if len(lengths) > 1 or not lengths[0].isdigit():
        return None
    end = place + int(lengths[0])
    return (data[place:end], end) if end <= len(data) else None


def _chunks(data: bytes, place: int) -> tuple[bytes, int] | None:
    body = b""
    while (line := CHUNK.match(data, place)) is not None:
        size, place = int(line[1], 16), line.end()
        if size == 0:
            trailers = TRAILERS.match(data, place)
            return None if trailers is None else (body, trailers.end())
        body += data[place : place + size]
        place += size + 2
        if data[place - 2 : place] != b"\r\n":
            return None
    return None


def check(data: bytes) -> Outcome:
    """Read bytes in several ways; what must hold holds."""
    whole = read([data])
    assert whole.status is None or 400 <= whole.status < 500
    for size in PIECES_BYTES:
        other = read(cut(data, size))
        assert other.requests == whole.requests, size
        assert (other.status is None) == (whole.status is None), (size, other.status, whole.status)
        assert other.phase is whole.phase, size
        if other.status != whole.status:
            assert {other.status, whole.status} <= IN_HEAD, (size, other.status, whole.status)
    expected = model(data)
    seen = [(method, path_of(target), body) for (method, target, body), _ in whole.requests]
    assert seen == [(method, path_of(target), body) for method, target, body in expected[: len(seen)]]
    closing = [keep_alive for _, keep_alive in whole.requests]
    assert all(closing[:-1]), "a request was read after one that said it is the last"
    return whole


def path_of(target: bytes) -> bytes:
    """A target without what is written for proxies."""
    return re.sub(rb"\Ahttps?://[^/?]*/?", b"/", target, flags=re.IGNORECASE)
