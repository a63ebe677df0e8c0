"""Logging in as a browser does it, byte by byte: the cookie, the token, headers, and who is refused."""

import http.client
import json
from typing import Any, NamedTuple

import pytest

from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


class Answer(NamedTuple):
    """What the server said."""

    status: int
    headers: http.client.HTTPMessage
    json: Any


class Client:
    """A browser without a window."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.headers: dict[str, str] = {"X-CSRF-Token": ""}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        is_json = "json" in (answer.headers["Content-Type"] or "")
        return Answer(answer.status, answer.headers, json.loads(text) if is_json else None)

    def log_in(self, user: str, password: str) -> Answer:
        answer = self.call("POST", "/console/session", {"user": user, "password": password})
        if answer.status == 201:
            self.headers = {
                "Cookie": answer.headers["Set-Cookie"].split(";")[0],
                "X-CSRF-Token": answer.json["token"],
            }
        return answer


@pytest.fixture
def client(server: ServerProcess) -> Client:
    return Client(server.ports["http"])


def test_a_session_is_good_for_every_api_until_it_ends(client: Client) -> None:
    told = client.log_in("guest", "guest")
    assert (told.json["user"], told.json["tags"]) == ("guest", ["administrator"])
    assert told.json["vhosts"] == told.json["makes_in"] == ["/"]
    assert "HttpOnly; SameSite=Strict" in told.headers["Set-Cookie"]
    assert client.call("GET", "/api/whoami").json["name"] == "guest"
    assert client.call("GET", "/queues/orders").status == 200
    assert client.call("GET", "/console/session").json["user"] == "guest"
    assert client.call("DELETE", "/console/session").status == 204
    assert client.call("GET", "/api/whoami").status == 401
    assert client.call("GET", "/console/session").json == {"user": None}


def test_a_change_without_the_token_is_refused(client: Client) -> None:
    client.log_in("guest", "guest")
    assert client.call("PUT", "/api/queues/%2F/forged", {}, X_CSRF_Token="guessed").status == 403
    assert client.call("POST", "/queues/orders/purge", {}, X_CSRF_Token="").status == 403
    assert client.call("DELETE", "/console/session", X_CSRF_Token="").status == 403
    assert client.call("GET", "/api/queues/%2F/forged").status == 404


def test_a_page_of_a_stranger_cannot_use_a_session(client: Client) -> None:
    client.log_in("guest", "guest")
    refused = client.call("PUT", "/api/queues/%2F/forged", {}, Origin="http://elsewhere.example")
    assert refused.status == 403


def test_browsers_are_not_asked_for_a_password_by_themselves(client: Client) -> None:
    assert client.call("GET", "/api/whoami").headers["WWW-Authenticate"] is None
    refused = client.log_in("guest", "wrong")
    assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, None)


def test_who_has_no_tag_is_not_let_in(client: Client, api: Api) -> None:
    api.put("/users/worker", {"password": "wonderland", "tags": ""})
    refused = client.log_in("worker", "wonderland")
    assert (refused.status, "tags" in refused.json["detail"]) == (403, True)


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 400), ({"user": "guest"}, 400), ([], 400), ({"user": "x" * 300, "password": ""}, 400), ("x" * 5_000, 413)],
)
def test_a_login_that_is_none_is_refused(client: Client, body: Any, status: int) -> None:
    assert client.call("POST", "/console/session", body).status == status


def test_rights_say_what_would_be_refused(client: Client) -> None:
    assert client.call("GET", "/console/rights/%2F/queue/orders").status == 401
    client.log_in("visitor", "wonderland")
    assert client.call("GET", "/console/rights/%2F/queue/orders").json == {
        "configure": False,
        "write": False,
        "read": True,
    }
    assert not any(client.call("GET", "/console/rights/%2F/exchange/shop").json.values())
    assert client.call("GET", "/console/rights/%2F/planet/earth").status == 404


def test_files_come_with_the_policy_of_the_page(client: Client) -> None:
    first = client.call("GET", "/console/app.js")
    assert "default-src 'self'" in first.headers["Content-Security-Policy"]
    assert "unsafe" not in first.headers["Content-Security-Policy"]
    assert (first.headers["X-Frame-Options"], first.headers["X-Content-Type-Options"]) == ("DENY", "nosniff")
    assert client.call("GET", "/console/app.js", If_None_Match=first.headers["ETag"]).status == 304
    assert client.call("GET", "/").headers["Location"] == "/console/"


@pytest.mark.parametrize(
    "path", ["/console/../auth.py", "/console/%2e%2e/assets.py", "/console/nothing.js", "/console//"]
)
def test_only_files_of_the_page_are_given_out(client: Client, path: str) -> None:
    assert client.call("GET", path).status == 404
