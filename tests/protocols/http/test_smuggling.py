"""Request smuggling: bytes in which a proxy and a server could see different requests, and what each gets here.

A row is the name of the bytes in tests/fuzz/http_corpus.py, the statuses of the answers, and whether the connection is
closed after them. The corpus hides a request to /hidden where a server must not find one.
"""

import pytest

from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from tests.fuzz.http_corpus import READ, REFUSED, chunks, codings, heads, lengths
from tests.fuzz.http_reading import LIMITS
from tests.protocols.http.world import World

OK, BAD = 200, 400
OPEN, CLOSED = False, True

TABLE: dict[str, tuple[list[int], bool]] = {
    # CL.TE and TE.CL: both headers, in either order
    "length, then chunks": ([BAD], CLOSED),
    "chunks, then length": ([BAD], CLOSED),
    # CL.CL: lengths that one reads in another way
    "length: a sign": ([BAD], CLOSED),
    "length: minus": ([BAD], CLOSED),
    "length: hexadecimal": ([BAD], CLOSED),
    "length: a fraction": ([BAD], CLOSED),
    "length: an underscore": ([BAD], CLOSED),
    "length: spaces inside": ([BAD], CLOSED),
    "length: a list": ([BAD], CLOSED),
    "length: two": ([BAD], CLOSED),
    "length: two different": ([BAD], CLOSED),
    "length: nothing": ([BAD], CLOSED),
    "length: 65 bits": ([BAD], CLOSED),
    "length: letters": ([BAD], CLOSED),
    "length: Arabic digits": ([BAD], CLOSED),
    "length: a line feed": ([BAD], CLOSED),
    "length: a zero byte": ([BAD], CLOSED),
    "a length with zeros": ([OK, OK], OPEN),
    "a length of nothing": ([OK, OK], OPEN),
    # TE.TE: a coding that one of them does not recognise
    "coding: tab": ([BAD], CLOSED),
    "coding: vertical tab": ([BAD], CLOSED),
    "coding: space before the colon": ([BAD], CLOSED),
    "coding: in a fold": ([BAD], CLOSED),
    "coding: after a fold": ([BAD], CLOSED),
    "coding: quoted": ([BAD], CLOSED),
    "coding: with a parameter": ([BAD], CLOSED),
    "coding: with a comma": ([BAD], CLOSED),
    "coding: twice": ([BAD], CLOSED),
    "coding: twice in a line": ([BAD], CLOSED),
    "coding: and identity": ([BAD], CLOSED),
    "coding: identity": ([BAD], CLOSED),
    "coding: after identity": ([BAD], CLOSED),
    "coding: after gzip": ([BAD], CLOSED),
    "coding: xchunked": ([BAD], CLOSED),
    "coding: chunk": ([BAD], CLOSED),
    "coding: nothing": ([BAD], CLOSED),
    "coding: a zero byte in the name": ([BAD], CLOSED),
    "coding: an underscore": ([BAD], CLOSED),
    "coding: behind a line feed": ([BAD], CLOSED),
    "coding: behind a carriage return": ([BAD], CLOSED),
    "chunks of HTTP/1.0": ([BAD], CLOSED),
    "chunks in capitals": ([OK, OK], OPEN),
    # Sizes of chunks
    "chunk of b'+5'": ([BAD], CLOSED),
    "chunk of b'-5'": ([BAD], CLOSED),
    "chunk of b'0x5'": ([BAD], CLOSED),
    "chunk of b' 5'": ([BAD], CLOSED),
    "chunk of b'5 '": ([BAD], CLOSED),
    "chunk of b'\\t5'": ([BAD], CLOSED),
    "chunk of b'5\\t'": ([BAD], CLOSED),
    "chunk of b'5 ;a'": ([BAD], CLOSED),
    "chunk of b''": ([BAD], CLOSED),
    "chunk of b';a'": ([BAD], CLOSED),
    "chunk of b'5_0'": ([BAD], CLOSED),
    "chunk of b'g'": ([BAD], CLOSED),
    "chunk of b'\\xb5'": ([BAD], CLOSED),
    "chunk of b'10000000000000005'": ([BAD], CLOSED),
    "chunk of b'00000000000000005'": ([BAD], CLOSED),
    "chunk of b'ffffffffffffffff'": ([413], CLOSED),
    "chunk of b'7fffffffffffffff'": ([413], CLOSED),
    "a chunk that is longer than it says": ([BAD], CLOSED),
    "a chunk that is shorter than it says": ([BAD], CLOSED),
    "a chunk of 64 bits after another": ([413], CLOSED),
    # Ends of lines
    "chunks with line feeds": ([BAD], CLOSED),
    "a chunk with a carriage return": ([BAD], CLOSED),
    "a line feed in an extension": ([BAD], CLOSED),
    "a carriage return in an extension": ([BAD], CLOSED),
    "a zero byte in an extension": ([BAD], CLOSED),
    "line feeds": ([BAD], CLOSED),
    "a line feed at the end": ([BAD], CLOSED),
    "a carriage return at the end": ([BAD], CLOSED),
    "a bare carriage return": ([BAD], CLOSED),
    "a folded header": ([BAD], CLOSED),
    "a folded first header": ([BAD], CLOSED),
    # Heads
    "a zero byte": ([BAD], CLOSED),
    "a zero byte in a name": ([BAD], CLOSED),
    "a name without a value": ([BAD], CLOSED),
    "no name": ([BAD], CLOSED),
    "two hosts": ([BAD], CLOSED),
    "no host": ([BAD], CLOSED),
    "a target of another host": ([BAD], CLOSED),
    "a target without a slash": ([BAD], CLOSED),
    "two spaces": ([BAD], CLOSED),
    "a space in the target": ([BAD], CLOSED),
    "a tab": ([BAD], CLOSED),
    "no version": ([BAD], CLOSED),
    "no version, and a line feed": ([BAD], CLOSED),
    "another version": ([BAD], CLOSED),
    "HTTP/2": ([BAD], CLOSED),
    "lower case": ([BAD], CLOSED),
    "a tunnel": ([405], CLOSED),
    "an answer": ([BAD], CLOSED),
    "TLS": ([BAD], CLOSED),
    # Requests that hide in others, and those that do not
    "more after the last request": ([OK], CLOSED),
    "more after a last request with a body": ([OK], CLOSED),
    "a request inside of a body": ([OK], OPEN),
    "a request inside of a chunk": ([OK, OK], OPEN),
    "chunks with extensions and trailers": ([OK, OK], OPEN),
    "an offer of another protocol": ([OK, OK, OK], OPEN),
    "an offer with chunks": ([OK, OK], OPEN),
    "an offer without a body": ([OK, OK], OPEN),
    "a proxy's target": ([OK], OPEN),
    "an empty line before": ([OK], OPEN),
    "two": ([OK, OK], OPEN),
    "HTTP/1.0": ([OK], CLOSED),
    "the last request": ([OK], CLOSED),
}


def test_the_table_has_every_row_of_the_corpus_about_framing() -> None:
    assert {name for part in (lengths, codings, chunks, heads) for name, _ in part()} <= TABLE.keys()
    assert TABLE.keys() <= REFUSED.keys() | READ.keys()


@pytest.mark.parametrize("name", TABLE)
def test_each_row(name: str) -> None:
    data = REFUSED[name] if name in REFUSED else READ[name][1]
    statuses, closed = TABLE[name]
    served: list[bytes] = []

    def handler(request: Request) -> Response:
        served.append(request.raw_path)
        return Response(200)

    with World(handler, LIMITS) as world:
        client = world.connect()
        client.send(data)
        assert [client.answer().status for _ in statuses] == statuses
        if closed:
            assert client.is_closed()
        else:
            assert client.request("GET /next").status == OK
            assert served.pop() == b"/next"
    assert len(served) == statuses.count(OK)
    assert name in READ or b"/hidden" not in served
