"""Client certificates as identities over HTTP: REST, management, metrics and the console, with a real server."""

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

import leveret
from leveret.security.access import Access
from tests.server.certificates import Authority, Identity
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

MESSAGE = {"payload": {"x": 1}}
JSON = {"Content-Type": "application/json"}
BROWSER = {"User-Agent": "Mozilla/5.0", "X-CSRF-Token": ""}
SAME, CROSS = {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "cross-site"}
ELSEWHERE = {"X-Forwarded-For": "192.0.2.7"}  # what is scraped through a proxy needs a login


class Client:
    """A connection by TLS with a certificate, or without one."""

    def __init__(self, server: ServerProcess, authority: Authority, own: Identity | None) -> None:
        context = ssl.create_default_context(cafile=str(authority.cert))
        if own is not None:
            context.load_cert_chain(own.cert, own.key)
        port = server.ports["https"]
        self.origin = f"https://127.0.0.1:{port}"
        self._http = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context)
        self.cookie = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            sent["Cookie"] = self.cookie
        self._http.request(method, path, None if body is None else json.dumps(body), {**JSON, **sent})
        answer = self._http.getresponse()
        data = answer.read()
        self.cookie = (answer.getheader("Set-Cookie") or self.cookie).partition(";")[0]
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, json.loads(data) if is_json and data else data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()


@pytest.fixture
def server(tmp_path: Path, authority: Authority) -> Iterator[ServerProcess]:
    own = authority.issue("localhost", file="server")
    with leveret.open(tmp_path / "data") as broker, broker.runtime as core:
        access = Access(core, ("guest", "guest"))
        access.add_user("alice", "", ["administrator"])
        access.set_permission("alice", "/", ".*", ".*", ".*")
        access.add_user("worker", "")
        access.set_permission("worker", "/", "", "^orders$", "")
    files = {"cert": own.cert, "key": own.key, "client-ca": authority.cert}
    flags = [word for name, path in files.items() for word in (f"--tls-{name}", str(path))]
    with ServerProcess(tmp_path, "--amqps-port", "0", *flags, "--http-cert-login") as server:
        yield server


@pytest.fixture
def alice(server: ServerProcess, authority: Authority) -> Iterator[Client]:
    with Client(server, authority, authority.issue("alice", file="alice")) as client:
        yield client


def test_every_api_takes_the_certificate_for_its_user(alice: Client) -> None:
    assert alice.ask("GET", "/api/whoami") == (200, {"name": "alice", "tags": ["administrator"]})
    assert alice.ask("PUT", "/queues/orders", {})[0] in (200, 201)
    assert alice.ask("GET", "/queues/orders")[0] == 200
    assert alice.ask("GET", "/metrics", **ELSEWHERE)[0] == 200
    assert alice.ask("GET", "/api/vhosts")[0] == 200


def test_permissions_are_those_of_the_user(server: ServerProcess, authority: Authority, alice: Client) -> None:
    assert alice.ask("PUT", "/queues/orders", {})[0] in (200, 201)
    with Client(server, authority, authority.issue("worker", file="worker")) as worker:
        assert worker.ask("POST", "/queues/orders/messages", MESSAGE)[0] == 201
        assert worker.ask("PUT", "/queues/other", {})[0] == 403
        assert worker.ask("GET", "/api/overview")[0] == 401
        assert worker.ask("GET", "/metrics", **ELSEWHERE)[0] == 403


def test_without_a_certificate_or_with_that_of_no_user(server: ServerProcess, authority: Authority) -> None:
    for own in (None, authority.issue("mallory", file="mallory")):
        with Client(server, authority, own) as client:
            assert client.ask("GET", "/queues/orders")[0] == 401
            assert client.ask("GET", "/console/session") == (200, {"user": None})
    server.wait_for("the certificate names user 'mallory', which does not exist")


def test_other_sites_cannot_use_it(alice: Client) -> None:
    """A browser shows the certificate to whatever page asks: what changes something, or is read, is refused."""
    evil = {"Origin": "https://evil.example", "User-Agent": "Mozilla/5.0"}
    for foreign in (evil | CROSS, evil, {"User-Agent": "Mozilla/5.0"} | CROSS, {"User-Agent": "Mozilla/5.0"}):
        assert alice.ask("PUT", "/api/vhosts/stolen", {}, **foreign)[0] == 403
        assert alice.ask("POST", "/queues/orders/messages", MESSAGE, **foreign)[0] == 403
    assert alice.ask("GET", "/api/overview", **evil, **CROSS)[0] == 403
    assert alice.ask("GET", "/console/session", **evil, **CROSS) == (200, {"user": None})
    assert alice.ask("GET", "/api/vhosts/stolen")[0] == 404


def test_the_console_knows_who_has_the_certificate(server: ServerProcess, alice: Client, authority: Authority) -> None:
    status, shown = alice.ask("GET", "/console/session", **BROWSER, **SAME)
    assert (status, shown["user"], shown["tags"]) == (200, "alice", ["administrator"])
    own = {"User-Agent": "Mozilla/5.0", "Origin": alice.origin, **SAME}
    assert alice.ask("PUT", "/api/vhosts/one", {}, **own, X_CSRF_Token=shown["token"])[0] == 201
    assert alice.ask("PUT", "/api/vhosts/two", {}, **own)[0] == 403  # a session needs its token, certificate or not
    with Client(server, authority, None) as stolen:
        stolen.cookie = alice.cookie
        assert stolen.ask("GET", "/api/whoami", **SAME)[0] == 401  # a cookie that left the browser is of no use


def test_it_is_off_unless_an_option_says_so(tmp_path: Path, authority: Authority) -> None:
    own, alice = authority.issue("localhost", file="server"), authority.issue("guest", file="guest")
    files = {"cert": own.cert, "key": own.key, "client-ca": authority.cert}
    flags = [word for name, path in files.items() for word in (f"--tls-{name}", str(path))]
    with ServerProcess(tmp_path, "--amqps-port", "0", *flags) as server, Client(server, authority, alice) as client:
        assert client.ask("GET", "/api/whoami")[0] == 401
        assert client.ask("GET", "/console/session") == (200, {"user": None})
