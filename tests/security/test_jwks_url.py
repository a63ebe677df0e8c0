"""Keys of an issuer by HTTP: from a real server, which may change them, be slow, or send anything."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from leveret.security import fetch, jwks
from leveret.security.identity import BadToken
from leveret.security.jwks import Jwks
from leveret.security.web_tokens import Issuer, WebTokens
from tests.waiting import PATIENCE_S

NOW_MS = 1_700_000_000_000
Serve = Callable[[BaseHTTPRequestHandler], None]


class IssuerServer:
    """An HTTP server whose answer the test chooses."""

    def __init__(self) -> None:
        self.asked = 0
        self.serve: Serve = answering(b"")
        self.released = threading.Event()
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                world.asked += 1
                world.serve(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def issuer() -> Iterator[IssuerServer]:
    server = IssuerServer()
    yield server
    server.close()


def answering(body: bytes, status: int = 200, **headers: str) -> Serve:
    def serve(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return serve


def raw(data: bytes) -> Serve:
    def serve(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(data)
        request.close_connection = True

    return serve


class Key:
    """A key of an issuer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.public = {**json.loads(ECAlgorithm.to_jwk(self._private.public_key())), "kid": name}

    def sign(self, **claims: Any) -> str:
        told = {"iss": "me", "sub": "ada", "aud": "leveret", "exp": NOW_MS // 1000 + 3600, "scope": "read:*", **claims}
        return jwt.encode(told, self._private, "ES256", {"kid": self.name})


def key_set(*keys: Key) -> bytes:
    return json.dumps({"keys": [key.public for key in keys]}).encode()


def test_keys_are_fetched_and_rotated(issuer: IssuerServer) -> None:
    old, new = Key("old"), Key("new")
    issuer.serve = answering(key_set(old))
    tokens = WebTokens(Issuer(issuer="me"), Jwks(issuer.url))
    assert tokens.verify(old.sign(), NOW_MS).user == "ada"
    issuer.serve = answering(key_set(old, new))
    with pytest.raises(BadToken, match="a key that its issuer does not have"):
        tokens.verify(new.sign(), NOW_MS + 1)
    assert tokens.verify(new.sign(), NOW_MS + jwks.RETRY_MS).user == "ada"
    issuer.serve = answering(key_set(new))
    with pytest.raises(BadToken, match="a key that its issuer does not have"):
        tokens.verify(old.sign(jti="another"), NOW_MS + jwks.RETRY_MS + jwks.REFRESH_MS)
    assert issuer.asked == 3


@pytest.mark.parametrize(
    "serve",
    [
        answering(b"<html>"),
        answering(b"", 500),
        answering(b"", 302, Location="http://127.0.0.1:1/keys"),
        answering(b" " * (fetch.ANSWER_BYTES_MAX + 1)),
        answering(b"{}", 200, Content_Length="10"),
        raw(b"nonsense\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 70_000),
        raw(b""),
    ],
    ids=["no JSON", "500", "redirect", "huge", "cut off", "no HTTP", "long header", "closed"],
)
def test_an_answer_that_is_no_key_set_leaves_the_old_one(issuer: IssuerServer, serve: Serve) -> None:
    key = Key("one")
    issuer.serve = serve
    keys = Jwks(issuer.url)
    with pytest.raises(BadToken, match="no token can be checked now"):
        keys.key("one", NOW_MS)
    issuer.serve = answering(key_set(key))
    assert keys.key("one", NOW_MS + jwks.REFRESH_MS)
    issuer.serve = serve
    assert keys.key("one", NOW_MS + 2 * jwks.REFRESH_MS)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_a_server_that_takes_its_time_is_not_waited_for(
    issuer: IssuerServer, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    dripping = threading.Event()

    class Impatient(Future[bytes]):
        """Waits until bytes come, and not much longer: a socket alone would wait for the next one for ever."""

        def result(self, timeout: float | None = None) -> bytes:
            assert timeout == fetch.FETCH_S
            assert dripping.wait(PATIENCE_S)
            return super().result(0.05)

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(start)
        while not issuer.released.wait(0.01):
            request.wfile.write(b"X")
            dripping.set()

    monkeypatch.setattr(fetch, "Future", Impatient)
    issuer.serve = drip
    keys = Jwks(issuer.url)
    for later_ms in (0, jwks.REFRESH_MS):
        with pytest.raises(BadToken, match="no token can be checked now"):
            keys.key("one", NOW_MS + later_ms)
    assert issuer.asked == 1
