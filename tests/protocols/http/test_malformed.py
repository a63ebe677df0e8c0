"""What is no request, or too much of one: the right status, and the connection ends."""

import asyncio
import threading

import pytest

from leveret.protocols.http.connection import HttpConnection
from leveret.protocols.http.limits import HttpLimits
from leveret.protocols.net.admission import ConnectionBudget
from tests.protocols.http.world import Client, World

LIMITS = HttpLimits(target_bytes_max=100, headers_max=10, head_bytes_max=1_000, body_bytes_max=1_000)
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

MALFORMED: dict[str, tuple[int, bytes]] = {
    "no HTTP": (400, b"hello\r\n\r\n"),
    "TLS on a plain port": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "unknown method": (400, b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "unknown version": (400, b"GET / HTTP/3.7\r\nHost: x\r\n\r\n"),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
    "two credentials": (400, b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n"),
    "space before the colon": (400, b"GET / HTTP/1.1\r\nHost : x\r\n\r\n"),
    "folded header": (400, b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n"),
    "zero byte": (400, b"GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"),
    "bare line feed": (400, b"GET / HTTP/1.1\nHost: x\n\n"),
    "relative target": (400, b"GET a/b HTTP/1.1\r\nHost: x\r\n\r\n"),
    "target with another host": (400, b"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n"),
    "many empty lines": (400, b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "tunnel": (405, b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "length that is no number": (400, POST + b"Content-Length: 1x\r\n\r\n"),
    "negative length": (400, POST + b"Content-Length: -1\r\n\r\n"),
    "length beyond 64 bits": (400, POST + b"Content-Length: 99999999999999999999999\r\n\r\n"),
    "two lengths": (400, POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    "length and chunks": (400, POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunks not last": (400, POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n"),
    "unknown transfer coding": (400, POST + b"Transfer-Encoding: gzip\r\n\r\n"),
    "chunk size that is no number": (400, POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    "unknown expectation": (417, POST + b"Content-Length: 1\r\nExpect: a-miracle\r\n\r\n"),
    "long target": (414, b"GET /" + b"a" * 100 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
    "long target without end": (414, b"GET /" + b"a" * 100),
    "many headers": (431, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"a%d: b\r\n" % n for n in range(10)) + b"\r\n"),
    "one long header": (431, b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 1_000 + b"\r\n\r\n"),
    "one header often": (431, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 1_000 + b"\r\n"),
    "long body": (413, POST + b"Content-Length: 1001\r\n\r\n"),
    "long body that asks": (413, POST + b"Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n"),
    "long chunk": (413, CHUNKED + b"3e9\r\n" + b"x" * 1_001),
    "chunk of 64 bits after another": (413, CHUNKED + b"1\r\nx\r\nffffffffffffffff\r\nx"),
    "many trailers": (431, CHUNKED + b"0\r\n" + b"t: v\r\n" * (LIMITS.trailers_max + 1) + b"\r\n"),
    "long trailer": (431, CHUNKED + b"0\r\nt: " + b"v" * LIMITS.trailer_bytes_max + b"\r\n\r\n"),
    "long trailer without end": (431, CHUNKED + b"0\r\nt: " + b"v" * LIMITS.trailer_bytes_max),
    "long name of a trailer without end": (431, CHUNKED + b"0\r\n" + b"t" * (LIMITS.trailer_bytes_max + 1)),
    "folded trailer": (400, CHUNKED + b"0\r\nt: v\r\n w\r\n\r\n"),
    "trailer without a colon": (400, CHUNKED + b"0\r\ntrailer\r\n\r\n"),
    "many extensions": (400, CHUNKED + b"1;a\r\nx\r\n" * (LIMITS.extensions_max + 1) + b"0\r\n\r\n"),
    "long extension": (400, CHUNKED + b"1;a=" + b"b" * LIMITS.extension_bytes_max + b"\r\nx\r\n0\r\n\r\n"),
    "long extension without end": (400, CHUNKED + b"1;a=" + b"b" * LIMITS.extension_bytes_max),
    "long extensions together": (
        400,
        CHUNKED + (b"1;a=" + b"b" * (LIMITS.extension_bytes_max // 5) + b"\r\nx\r\n") * 6 + b"0\r\n\r\n",
    ),
    "long extension of the last chunk": (400, CHUNKED + b"0;a=" + b"b" * LIMITS.extension_bytes_max + b"\r\n\r\n"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_it_is_refused_and_the_connection_ends(name: str) -> None:
    status, data = MALFORMED[name]
    with World(limits=LIMITS) as world:
        client = world.connect()
        client.send(data)
        answer = client.answer()
        assert answer.status == status, answer.body
        assert answer.headers["connection"] == "close"
        assert answer.headers["content-type"] == "application/problem+json"
        assert client.is_closed()


@pytest.mark.parametrize("name", MALFORMED)
def test_what_came_before_is_answered_first(name: str) -> None:
    status, data = MALFORMED[name]
    with World(limits=LIMITS) as world:
        client = world.connect()
        client.send(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n" + data)
        assert client.answer().body == b"GET /first "
        assert client.answer().status == status


def test_a_header_without_end_is_refused() -> None:
    with World(limits=LIMITS) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        sender = threading.Thread(target=_send_until_closed, args=(client, b"b" * 700))
        sender.start()
        assert client.answer().status == 431
        client.close()
        sender.join()


def _send_until_closed(client: Client, data: bytes) -> None:
    try:
        while True:
            client.send(data)
    except OSError:
        return


def test_chunks_are_counted_while_they_come() -> None:
    with World(limits=LIMITS) as world:
        client = world.connect()
        client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        sender = threading.Thread(target=_send_until_closed, args=(client, b"64\r\n" + b"x" * 100 + b"\r\n"))
        sender.start()
        assert client.answer().status == 413
        client.close()
        sender.join()


def test_a_large_body_that_is_refused_does_not_destroy_the_answer() -> None:
    with World(limits=LIMITS) as world:
        client = world.connect()
        client.send(POST + b"Content-Length: 500000\r\n\r\n" + b"x" * 500_000)
        assert client.answer().status == 413


def test_slow_headers_and_bodies_are_refused() -> None:
    with World() as world:
        head, body = world.connect(), world.connect()
        assert [each.request("GET /").status for each in (head, body)] == [200, 200]
        # Not before: a client that has said nothing yet is closed without a word.
        world.server.limits = HttpLimits(head_s=0.05, body_s=0.05)
        head.send(b"GET / HTTP/1.1\r\nHost:")
        body.send(POST + b"Content-Length: 10\r\n\r\nabc")
        assert [head.answer().status, body.answer().status] == [408, 408]
        assert head.is_closed()
        assert body.is_closed()


def test_a_client_that_says_nothing_is_closed() -> None:
    with World(limits=HttpLimits(head_s=0.05)) as world:
        assert world.connect().is_closed()


def test_slow_clients_make_room_for_good_ones() -> None:
    with World(admission=ConnectionBudget(1_000, 1_000, 20)) as world:
        slow = [world.connect() for _ in range(60)]
        for client in slow:
            client.send(b"GET / HTTP/1.1\r\nX: ")
            assert world.connect().request("GET /").status == 200
        assert sum(len(world.connect().request("GET /").body) > 0 for _ in range(5)) == 5
        assert slow[0].is_closed()


def test_a_connection_that_is_closed_while_it_opens_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = HttpConnection.connection_made

    def made_too_late(connection: HttpConnection, transport: asyncio.BaseTransport) -> None:
        made(connection, transport)
        world.server.close(connection)

    with World() as world:
        monkeypatch.setattr(HttpConnection, "connection_made", made_too_late)
        assert world.connect().is_closed()
        world.until(lambda: len(world.server) == 0)
