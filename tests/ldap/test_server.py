"""A real server whose users are in a real slapd: AMQP, HTTP, the console, and a directory that goes away."""

import base64
import http.client
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.ldap.slapd_process import GROUPS, PEOPLE, SERVICE, SERVICE_PASSWORD, SUFFIX, SlapdProcess, user
from tests.server.certificates import Authority
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until

ANN, BOB, GUEST = ("ann", "correct horse"), ("bob", "battery staple"), ("guest", "guest")


def flags(slapd: SlapdProcess, mapping: Path, *more: str) -> list[str]:
    """Options of a server that looks users up by a pattern, without TLS on this machine."""
    pattern = "uid=${username}," + PEOPLE
    words = ["--ldap-urls", slapd.url, "--no-ldap-starttls", "--ldap-user-dn", pattern, "--ldap-group-base", GROUPS]
    return [*words, "--ldap-mapping", str(mapping), *more]


@pytest.fixture
def server(tmp_path: Path, slapd: SlapdProcess, mapping: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, *flags(slapd, mapping)) as running:
        yield running


def connect(server: ServerProcess, login: tuple[str, str], vhost: str = "/") -> pika.BlockingConnection:
    given = pika.PlainCredentials(*login)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port, vhost, given))


def ask(
    server: ServerProcess, login: tuple[str, str] | None, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any, dict[str, str]]:
    """Status, JSON and headers of an answer."""
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if login is not None:
        sent["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    asked = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
    asked.request(method, path, None if body is None else json.dumps(body), sent)
    answer = asked.getresponse()
    data, is_json = answer.read(), "json" in (answer.getheader("Content-Type") or "")
    asked.close()
    return answer.status, json.loads(data) if is_json and data else data, dict(answer.getheaders())


def test_amqp_with_the_rights_of_groups(server: ServerProcess) -> None:
    with connect(server, ANN) as operator:
        channel = operator.channel()
        channel.queue_declare("orders")
        channel.queue_declare("private")
    with connect(server, BOB) as worker:
        channel = worker.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "orders", b"1")
        channel.queue_declare("bob-own")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.queue_declare("ann-own")
        assert "refused for user 'bob': none of its groups allows it" in refused.value.reply_text
        channel = worker.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.basic_get("private")
    server.wait_for("user=ann vhost=/ mechanism=PLAIN")


@pytest.mark.parametrize("login", [("ann", "wrong"), ("ann", ""), ("*", "correct horse"), ("eve", "evening"), ("", "")])
def test_amqp_refuses(server: ServerProcess, login: tuple[str, str]) -> None:
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(server, login)
    server.wait_for("login refused")


def test_a_virtual_host_without_a_group(server: ServerProcess) -> None:
    assert ask(server, ANN, "PUT", "/api/vhosts/shop", {})[0] == 201
    connect(server, ANN, "shop").close()
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost 'shop' refused for user 'bob'"):
        connect(server, BOB, "shop")


def test_http_with_the_rights_of_groups(server: ServerProcess) -> None:
    assert ask(server, ANN, "GET", "/api/whoami")[1] == {"name": "ann", "tags": ["administrator"]}
    assert ask(server, ANN, "PUT", "/queues/orders", {})[0] in (200, 201)
    assert ask(server, BOB, "POST", "/queues/orders/messages", {"payload": 1})[0] == 201
    assert ask(server, BOB, "PUT", "/queues/other", {})[0] == 403
    assert ask(server, BOB, "GET", "/api/overview")[0] == 401
    assert ask(server, ("ann", "wrong"), "GET", "/api/whoami")[0] == 401
    assert ask(server, ("ann", ""), "GET", "/api/whoami")[0] == 401
    names = {row["name"] for row in ask(server, ANN, "GET", "/api/queues")[1]}
    assert names == {"orders"}


def test_the_console(server: ServerProcess) -> None:
    login = {"user": ANN[0], "password": ANN[1]}
    status, shown, headers = ask(server, None, "POST", "/console/session", login)
    assert (status, shown["user"], shown["tags"]) == (201, "ann", ["administrator"])
    assert "/" in shown["vhosts"]
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert ask(server, None, "GET", "/console/session", Cookie=cookie)[1]["user"] == "ann"
    token = {"Cookie": cookie, "X_CSRF_Token": shown["token"]}
    assert ask(server, None, "PUT", "/api/vhosts/shop", {}, **token)[0] == 201
    assert ask(server, None, "PUT", "/api/vhosts/other", {}, Cookie=cookie)[0] == 403
    assert ask(server, None, "GET", "/console/rights/%2F/queue/orders", **token)[1]["configure"] is True
    assert ask(server, None, "DELETE", "/console/session", **token)[0] == 204
    assert ask(server, None, "GET", "/api/whoami", **token)[0] == 401
    assert ask(server, None, "POST", "/console/session", {"user": "bob", "password": BOB[1]})[0] == 403
    assert ask(server, None, "POST", "/console/session", {"user": "ann", "password": "wrong"})[0] == 401


def test_stored_users_and_the_directory_side_by_side(server: ServerProcess) -> None:
    connect(server, GUEST).close()
    assert ask(server, GUEST, "PUT", "/api/users/ann", {"password": "stored here", "tags": ""})[0] in (201, 204)
    assert ask(server, ("ann", "stored here"), "GET", "/queues")[0] == 403  # each by its own rights, and this has none
    assert ask(server, ("ann", "stored here"), "GET", "/api/whoami")[0] == 401
    assert ask(server, ANN, "GET", "/api/whoami")[1]["tags"] == ["administrator"]
    assert [row["name"] for row in ask(server, ANN, "GET", "/api/users")[1]] == ["ann", "guest"]


def test_tls_and_a_search(tmp_path: Path, slapd: SlapdProcess, authority: Authority, mapping: Path) -> None:
    words = ["--ldap-urls", f"{slapd.tls_url},{slapd.url}", "--ldap-ca", str(authority.cert), "--ldap-bind-dn", SERVICE]
    words += ["--ldap-user-base", SUFFIX, "--ldap-group-attribute", "memberOf", "--ldap-mapping", str(mapping)]
    secret = {"LEVERET_LDAP_BIND_PASSWORD": SERVICE_PASSWORD}
    with ServerProcess(tmp_path, *words, "--auth-backends", "ldap", environ=secret) as server:
        assert ask(server, ANN, "GET", "/api/whoami")[0] == 200
        assert ask(server, GUEST, "GET", "/api/whoami")[0] == 401  # the directory decides alone
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connect(server, ("twin", "first"))
        server.wait_for("several entries are user 'twin'")
        assert SERVICE_PASSWORD not in server.text
        assert ANN[1] not in server.text


def test_a_directory_that_goes_away_and_comes_back(tmp_path: Path, own_slapd: SlapdProcess, mapping: Path) -> None:
    words = flags(own_slapd, mapping, "--ldap-timeout-s", "1")
    with ServerProcess(tmp_path, *words) as server, connect(server, ANN) as connected:
        own_slapd.kill()
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connect(server, BOB)
        server.wait_for("ldap server does not answer")
        connect(server, GUEST).close()
        assert ask(server, GUEST, "GET", "/api/whoami")[0] == 200
        channel = connected.channel()
        channel.queue_declare("orders")  # who is connected stays so
        own_slapd.start()
        wait_until(lambda: ask(server, BOB, "GET", "/queues")[0] == 200)
        server.wait_for("ldap server answers again")


def test_a_directory_that_hangs_holds_up_nobody_else(tmp_path: Path, own_slapd: SlapdProcess, mapping: Path) -> None:
    with ServerProcess(tmp_path, *flags(own_slapd, mapping, "--ldap-timeout-s", "1")) as server:
        own_slapd.signal(signal.SIGSTOP)
        with ThreadPoolExecutor(4) as threads:
            hanging = [threads.submit(ask, server, (f"user{each}", "x"), "GET", "/queues") for each in range(4)]
            assert ask(server, GUEST, "GET", "/api/whoami")[0] == 200
            connect(server, GUEST).close()
            assert {each.result()[0] for each in hanging} == {401}
        server.wait_for("ldap server does not answer")
        own_slapd.signal(signal.SIGCONT)
        wait_until(lambda: ask(server, BOB, "GET", "/queues")[0] == 200)


def test_who_is_taken_out_of_a_group_has_no_rights_at_the_next_login(
    tmp_path: Path, own_slapd: SlapdProcess, mapping: Path
) -> None:
    with ServerProcess(tmp_path, *flags(own_slapd, mapping, "--ldap-cache-s", "0")) as server:
        connect(server, BOB).close()
        change = f"dn: cn=orders,{GROUPS}\nchangetype: modify\nadd: member\nmember: {user('eve')}\n-\n"
        own_slapd.modify(f"{change}delete: member\nmember: {user('bob')}\n")
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connect(server, BOB)
        connect(server, ("eve", "evening")).close()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--ldap-urls", "ldap://ldap.example.org", "--no-ldap-starttls"], "passwords would go to .* without TLS"),
        (["--ldap-urls", "ldaps://ldap.example.org"], "give ldap_user_dn, or ldap_user_base"),
        (["--ldap-urls", "http://ldap.example.org"], "an LDAP server is like"),
        (["--auth-backends", "ldap"], "needs ldap_urls"),
        (["--ldap-urls", "ldaps://x", "--ldap-user-dn", "uid=${username}", "--ldap-group-base", "o=x"], "nowhere.toml"),
    ],
)
def test_options_that_cannot_be_used(tmp_path: Path, words: list[str], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        ServerProcess(tmp_path, *words, "--ldap-mapping", str(tmp_path / "nowhere.toml")).start()
