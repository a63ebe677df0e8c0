"""Requests to a provider: whom it is believed to be, and how many of them may wait."""

import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from leveret.core.errors import InvalidArgument
from leveret.security import fetch
from leveret.security.fetch import REQUESTS_MAX, Fetcher, check_url, json_object
from tests.server.certificates import Authority
from tests.waiting import PATIENCE_S, wait_until


class Served:
    """A server that answers when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.go_on = threading.Event()
        self.go_on.set()
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                world.asked += 1
                assert world.go_on.wait(PATIENCE_S)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()
        self.port = self.server.server_port

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


def test_a_provider_by_tls_is_checked_against_its_authority(served: Served, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "Other Authority")
    own = authority.issue("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    served.server.socket = context.wrap_socket(served.server.socket, server_side=True)
    url = f"https://127.0.0.1:{served.port}/keys"
    assert Fetcher(str(authority.cert)).get(url) == b"{}"
    for ca in (None, str(stranger.cert)):
        with pytest.raises(OSError, match="certificate verify failed"):
            Fetcher(ca).get(url)


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot read the certificates"):
        Fetcher(str(tmp_path / "missing.pem"))


@pytest.mark.parametrize("method", REQUESTS_MAX)
def test_a_provider_that_does_not_answer_holds_few_threads(served: Served, method: str) -> None:
    served.go_on.clear()
    fetcher, url = Fetcher(), f"http://127.0.0.1:{served.port}/x"

    def ask() -> object:
        return fetcher.get(url) if method == "GET" else fetcher.post(url, {"a": "b"}, {})

    with ThreadPoolExecutor(REQUESTS_MAX[method]) as threads:
        waiting = [threads.submit(ask) for _ in range(REQUESTS_MAX[method])]
        wait_until(lambda: served.asked == REQUESTS_MAX[method])
        with pytest.raises(TimeoutError, match="has not answered the last request yet"):
            ask()
        served.go_on.set()
        assert all(each.result(PATIENCE_S) in (b"{}", {}) for each in waiting)
    ask()


@pytest.mark.parametrize(
    "url", ["http://id.example", "ftp://127.0.0.1", "id.example", "https://", "file:///etc/passwd", ""]
)
def test_only_https_is_asked_unless_it_is_this_machine(url: str) -> None:
    with pytest.raises(InvalidArgument, match="https://"):
        Fetcher().get(url)


def test_this_machine_is_asked_without_tls() -> None:
    for url in ("http://127.0.0.1:1/", "http://localhost/", "http://[::1]/", "https://id.example"):
        check_url("it", url)


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_an_answer_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="no JSON object"):
        json_object(data)


def test_the_size_of_an_answer_is_limited() -> None:
    with pytest.raises(InvalidArgument, match="over 1048576 bytes"):
        fetch.bounded(bytes(fetch.ANSWER_BYTES_MAX + 1))
