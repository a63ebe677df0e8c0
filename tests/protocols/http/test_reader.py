"""Bytes to requests, without sockets: the pieces in which they come change nothing, and nonsense harms nobody."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.protocols.http.limits import HttpLimits
from leveret.protocols.http.reader import RequestReader, nesting
from leveret.protocols.http.request import HttpPeer, Refusal, Request

LIMITS = HttpLimits(target_bytes_max=200, headers_max=20, head_bytes_max=2_000, body_bytes_max=2_000)
Seen = list[tuple[str, bytes, dict[bytes, bytes], bytes, bool]]

names = st.sampled_from([b"A", b"x-long-name", b"Cookie", b"Accept"])
values = st.text("abc xyz,;=", max_size=20).map(lambda text: text.strip().encode())
fields = st.lists(st.tuples(names, values), max_size=5)
extensions = st.sampled_from([b"", b"", b";a", b';a="b c"; d'])
bodies = st.binary(max_size=100)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A good request."""
    method = draw(st.sampled_from([b"GET", b"POST", b"DELETE", b"PUT"]))
    target = b"/" + draw(st.text("abc/%2F?&=", max_size=20)).encode()
    lines = [
        b"Host: x",
        *(name + b": " + value for name, value in draw(fields)),
    ]
    body = draw(bodies)
    if draw(st.booleans()):
        lines.append(b"Transfer-Encoding: chunked")
        pieces = draw(st.lists(st.binary(min_size=1, max_size=30), max_size=4))
        body = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), draw(extensions), piece) for piece in pieces)
        trailers = b"".join(name + b": " + value + b"\r\n" for name, value in draw(fields))
        body += b"0" + draw(extensions) + b"\r\n" + trailers + b"\r\n"
    else:
        lines.append(b"Content-Length: %d" % len(body))
    if draw(st.integers(0, 5)) == 0:
        lines += [b"Connection: upgrade", b"Upgrade: h2c"]
    return method + b" " + target + b" HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body


def read(pieces: list[bytes]) -> tuple[Seen, int | None]:
    """The requests in some bytes, and the status of what ended them."""
    seen: Seen = []

    def received(request: Request, keep_alive: bool) -> None:
        headers = {name: value for name, value in request.headers.items() if name != b"upgrade"}
        seen.append((request.method, request.target, headers, request.body, keep_alive))

    reader = RequestReader(LIMITS, HttpPeer("127.0.0.1", 1), received)
    try:
        for piece in pieces:
            reader.feed(piece)
    except Refusal as error:
        return seen, error.status
    return seen, None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if start < end]


@given(st.lists(requests(), min_size=1, max_size=4), st.lists(st.integers(0, 10_000), max_size=8))
def test_requests_are_the_same_in_whatever_pieces_they_come(sent: list[bytes], places: list[int]) -> None:
    data = b"".join(sent)
    whole = read([data])
    assert len(whole[0]) == len(sent)
    assert read(cut(data, places)) == whole
    assert read([bytes([byte]) for byte in data]) == whole


@given(requests(), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=5))
def test_a_damaged_request_is_read_or_refused(data: bytes, damage: list[tuple[int, int]]) -> None:
    changed = bytearray(data)
    for place, byte in damage:
        changed[place % len(changed)] = byte
    seen, status = read([bytes(changed)])
    assert status is None or 400 <= status < 500
    assert len(seen) <= len(changed) // 16


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_any_bytes_are_read_or_refused(data: bytes, places: list[int]) -> None:
    _, status = read(cut(data, places))
    assert status is None or 400 <= status < 500


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("", 0),
        ("1", 0),
        ("[]", 1),
        ('{"a": [1, {"b": []}]}', 4),
        ("[[],[],[[]]]", 3),
        ('["[[[["]', 1),
        (r'["\"[[", "\\", [1]]', 2),
        (r'["\\\"[[", "\\\\"]', 1),
        ('["no end [[', 1),
        ('"\\', 0),
        ("[" * 100_000, 100_000),
        ("]]][", 0),
    ],
)
def test_the_nesting_of_json(text: str, depth: int) -> None:
    assert nesting(text.encode()) == depth


@given(st.recursive(st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_the_nesting_of_any_json(value: Any) -> None:
    def depth(each: Any) -> int:
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else None
        return 0 if inside is None else 1 + max(map(depth, inside), default=0)

    assert nesting(json.dumps(value).encode()) == depth(value)
    assert nesting(json.dumps(value, ensure_ascii=False, indent=1).encode()) == depth(value)
