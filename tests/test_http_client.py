"""The HTTP client that all parts share: whole answers, limits of size and time, no proxies, no redirections."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPException

import pytest

from leveret.core.errors import Unreachable
from leveret.http_client import HEAD_BYTES_MAX, HEADERS_MAX, AnswerReader, ThreadedClient
from leveret.security.fetch import Fetcher
from tests.waiting import PATIENCE_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each request on each connection with the next bytes; None closes the connection."""

    def __init__(self, *answers: bytes | None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while self._answers:
            connection, _ = self._listener.accept()
            self.connections += 1
            with connection:
                while self._answers and (request := self._request(connection)):
                    self.requests.append(request)
                    answer = self._answers.pop(0)
                    if answer is None:
                        break
                    connection.sendall(answer)
                    if b"Connection: close" in answer:
                        break

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        """A whole request: a socket that is closed before the body was read resets the connection."""
        request = b""
        while more := connection.recv(65_536):
            request += more
            head, end, body = request.partition(b"\r\n\r\n")
            if end and len(body) == (1 if b"Content-Length: 1" in head else 0):
                break
        return request

    def close(self) -> None:
        self._thread.join(PATIENCE_S)
        self._listener.close()


@contextmanager
def serving(*answers: bytes | None) -> Iterator[tuple[Server, ThreadedClient]]:
    with (
        closing(Server(*answers)) as server,
        closing(ThreadedClient("127.0.0.1", server.port, PATIENCE_S)) as client,
    ):
        yield server, client


def ask(client: ThreadedClient, bytes_max: int = 1_000) -> tuple[int, bytes]:
    return client.ask("POST", "/a?b=c", {"Accept": "x"}, b"y", bytes_max)


def test_a_connection_is_kept_while_the_server_keeps_it() -> None:
    with serving(OK, CLOSING, OK) as (server, client):
        for _ in range(3):
            assert ask(client) == (200, b"ok")
    assert server.connections == 2
    assert server.requests[0].startswith(f"POST /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n".encode())


def test_an_answer_may_end_with_its_connection() -> None:
    with serving(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it") as (_, client):
        assert ask(client) == (200, b"all of it")


@pytest.mark.parametrize("answer", [None, b"220 mail.example ESMTP\r\n"], ids=["closed", "no HTTP"])
def test_after_what_is_no_answer_the_next_request_has_a_new_connection(answer: bytes | None) -> None:
    with serving(answer, OK) as (server, client):
        with pytest.raises((OSError, HTTPException)):
            ask(client)
        assert ask(client) == (200, b"ok")
    assert server.connections == 2


@pytest.mark.parametrize("bytes_max", [0, 10])
def test_no_more_is_read_than_is_wanted_and_the_rest_is_no_answer(bytes_max: int) -> None:
    with serving(b"HTTP/1.1 202 Yes\r\nContent-Length: 5000\r\n\r\n" + bytes(5_000), OK) as (server, client):
        assert ask(client, bytes_max) == (202, bytes(bytes_max))
        assert ask(client) == (200, b"ok")
    assert server.connections == 2


def test_redirections_are_not_followed() -> None:
    with serving(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n") as (_, client):
        assert ask(client) == (302, b"")


def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(CLOSING) as (server, _):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv("no_proxy", "")
        assert Fetcher().get(f"http://127.0.0.1:{server.port}/keys") == b"ok"
    assert server.requests[0].startswith(b"GET /keys HTTP/1.1\r\n")


def test_headers_without_end_are_refused() -> None:
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nX: ")
    reader.feed(b"x" * (HEAD_BYTES_MAX - 100))
    with pytest.raises(Unreachable, match="bytes of headers"):
        reader.feed(b"x" * 100)


def test_a_large_answer_is_refused() -> None:
    with pytest.raises(Unreachable, match="over 10 bytes"):
        AnswerReader(10).feed(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + bytes(11))


def test_too_many_headers_are_refused() -> None:
    lines = b"".join(b"X-%d: x\r\n" % number for number in range(HEADERS_MAX + 1))
    with pytest.raises(Unreachable, match="not HTTP"):
        AnswerReader().feed(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n")


def test_a_body_is_no_header_however_long() -> None:
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n") is None
    for _ in range(9):
        assert reader.feed(bytes(100_000)) is None
    answer = reader.feed(bytes(100_000))
    assert answer is not None
    assert len(answer.body) == 1_000_000


def test_an_interim_answer_is_not_one() -> None:
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n") is None
    answer = reader.feed(OK)
    assert answer is not None
    assert (answer.status, "link" in answer.headers) == (200, False)


def test_parts_of_an_answer_that_goes_on_can_be_taken() -> None:
    reader = AnswerReader(answer_bytes_max=4)
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in (b"abc", b"def"):  # together they are over the limit
        reader.feed(b"3\r\n%b\r\n" % part)
        assert reader.take() == part
