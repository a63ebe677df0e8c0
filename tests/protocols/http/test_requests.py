"""Requests of well-behaved clients, as raw bytes."""

import asyncio
import ssl
from pathlib import Path

import pytest

from leveret.protocols.http.limits import HttpLimits
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Response, json_response
from leveret.security.tls import Certificates, ServerTls
from tests.protocols.http.world import Client, World
from tests.server.certificates import Authority


def request(target: bytes, body: bytes = b"", **headers: str) -> Request:
    """A request in memory."""
    made = Request(
        "GET", target, {name.encode(): value.encode() for name, value in headers.items()}, HttpPeer("127.0.0.1", 1)
    )
    made.body = body
    return made


def test_a_request_is_answered(client: Client) -> None:
    answer = client.request("POST /a?b=c", "Content-Type: text/plain", body=b"hello")
    assert (answer.status, answer.body) == (200, b"POST /a?b=c hello")
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["server"] == "Leveret"
    assert answer.headers["date"].endswith("GMT")
    assert "connection" not in answer.headers


def test_a_connection_serves_many_requests(client: Client) -> None:
    assert [client.request(f"GET /{number}").body for number in range(3)] == [b"GET /0 ", b"GET /1 ", b"GET /2 "]


def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(50)))
    assert [client.answer().body for _ in range(50)] == [b"GET /%d " % number for number in range(50)]


def test_pipelined_requests_wait_for_slower_ones_before_them() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.05 if request.raw_path == b"/0" else 0)
        return Response(200, request.raw_path)

    with World(slow) as world:
        client = world.connect()
        client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(5)))
        assert [client.answer().body for _ in range(5)] == [b"/%d" % number for number in range(5)]


def test_what_comes_while_an_answer_is_made_waits_whatever_its_size() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.02)
        return Response(200, b"%d" % len(request.body))

    with World(slow) as world:
        client = world.connect()
        sizes = [0, 300_000, 5, 200_000]
        client.send(
            b"".join(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size for size in sizes)
        )
        assert [client.answer().body for _ in sizes] == [b"%d" % size for size in sizes]


def test_a_request_may_come_byte_by_byte(client: Client) -> None:
    for byte in b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":
        client.send(bytes([byte]))
    assert client.answer().body == b"POST /x abc"


def test_chunks_are_joined_and_trailers_are_not_headers() -> None:
    with World(lambda request: json_response([request.body.decode(), request.header(b"x-admin")])) as world:
        client = world.connect()
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send(b"3\r\nabc\r\n2;extension=1\r\nde\r\n0\r\nX-Admin: yes\r\n\r\n")
        assert client.answer().body == b'["abcde",""]'
        assert client.request("GET /").body == b'["",""]'


def test_head_has_the_length_but_not_the_body(client: Client) -> None:
    assert client.request("HEAD /abc").headers["content-length"] == str(len("HEAD /abc "))
    assert client.request("GET /").status == 200


def test_a_client_that_asks_is_told_to_send_its_body(client: Client) -> None:
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert client.answer().status == 100
    client.send(b"abc")
    assert client.answer().body == b"POST / abc"


def test_the_permission_to_send_comes_after_earlier_answers() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.02)
        return Response(200, request.body)

    with World(slow) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert [client.answer().status for _ in range(2)] == [200, 100]
        client.send(b"abc")
        assert client.answer().body == b"abc"


def test_http_1_0_closes_unless_asked_otherwise(world: World) -> None:
    client = world.connect()
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert client.answer().headers["connection"] == "keep-alive"
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    assert client.answer().headers["connection"] == "close"
    assert client.is_closed()


def test_a_client_may_ask_to_close(client: Client) -> None:
    assert client.request("GET /", "Connection: close").headers["connection"] == "close"
    assert client.is_closed()


def test_an_offer_of_another_protocol_is_declined(client: Client) -> None:
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    assert client.request("POST /x", *offer, body=b"abc").body == b"POST /x abc"
    assert client.request("GET /y", *offer).body == b"GET /y "
    client.send(b"POST /z HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: a\r\nContent-Length: 4\r\n\r\nab")
    client.send(b"cdGET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert [client.answer().body for _ in range(2)] == [b"POST /z abcd", b"GET / "]


def test_targets_for_proxies_are_understood(client: Client) -> None:
    assert client.request("GET http://test/a?b").body == b"GET /a?b "
    assert client.request("GET http://TEST?b").body == b"GET /?b "
    assert client.request("GET HTTP://test").body == b"GET / "
    assert client.request("OPTIONS *").body == b"OPTIONS * "


def test_the_handler_learns_who_comes_by_tls(authority: Authority) -> None:
    server, someone = authority.issue("server", file="server"), authority.issue("alice", file="alice")
    certificates = Certificates(str(server.cert), str(server.key), str(authority.cert), True)
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.load_cert_chain(someone.cert, someone.key)

    def tell(request: Request) -> Response:
        return json_response([request.peer.tls, request.peer.certificate_name])

    with World(tell, tls=ServerTls(certificates)) as world:
        assert world.connect(context).request("GET /").body == b'[true,"alice"]'


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_path_is_decoded_once_and_encoded_slashes_do_not_split() -> None:
    assert request(b"/queues/%2F/a%252Fb/%C3%A9").segments == ("queues", "/", "a%2Fb", "é")
    assert request(b"/queues/plain?x=/").segments == ("queues", "plain")
    assert request(b"/a%20b").path == "/a b"


@pytest.mark.parametrize("target", [b"/%FF", b"/\xff", b"/a/%C3"])
def test_a_path_that_is_no_text_is_refused(target: bytes) -> None:
    with pytest.raises(Refusal, match="UTF-8") as refused:
        _ = request(target).segments
    assert refused.value.status == 400


def test_query_and_form_are_fields() -> None:
    assert request(b"/?a=1&b=%20x+y&c").query == {"a": "1", "b": " x y", "c": ""}
    assert request(b"/", b"Action=SendMessage&Body=%26").form == {"Action": "SendMessage", "Body": "&"}
    assert request(b"/").query == {}


@pytest.mark.parametrize("query", [b"a=1&a=2", b"a=%ff", b"\xe9", b"&".join(b"a%d" % n for n in range(1_001))])
def test_a_query_that_is_ambiguous_or_too_long_or_no_text_is_refused(query: bytes) -> None:
    with pytest.raises(Refusal, match="the query has") as refused:
        _ = request(b"/?" + query).query
    assert refused.value.status == 400


def test_the_media_type_has_no_parameters() -> None:
    made = Request("POST", b"/", {b"content-type": b"Application/JSON; charset=utf-8"}, HttpPeer("127.0.0.1", 1))
    assert made.media_type == "application/json"


def test_an_idle_connection_is_closed() -> None:
    with World(limits=HttpLimits(idle_s=0.1)) as world:
        client = world.connect()
        assert client.request("GET /").status == 200
        assert client.is_closed()
