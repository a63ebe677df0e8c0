"""Requests that a browser sends for a page of a stranger, or a proxy for a client: they are not from this machine."""

import http.client
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

GUEST = {"Authorization": f"Basic {b64encode(b'guest:guest').decode()}"}
MAKE_QUEUE = "/?Action=CreateQueue&QueueName=orders"
LIST_QUEUES = "/?Action=ListQueues"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for development: without signatures of SQS, and with the user guest."""
    names = ("--http-hosts", "broker.example.com,*.brokers.example.com", "--http-origins", "https://a.example")
    with ServerProcess(tmp_path_factory.mktemp("server"), "--sqs-auth", "off", *names) as running:
        yield running


def ask(port: int, line: str, body: str | None = None, **headers: str) -> tuple[int, bytes]:
    """Send a request with these headers and no others; the status and the body of the answer."""
    method, path = line.split(" ", 1)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(None if body is None else body.encode())
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:15672", "x.broker.example.com", "127.1", "broker", "a b"]
)
def test_a_name_that_leads_here_is_not_enough(server: ServerProcess, host: str) -> None:
    status, body = ask(server.ports["http"], "GET /api/overview", Host=host, **GUEST)
    assert (status, b"http_hosts" in body) == (421, True)
    assert ask(server.ports["http"], "GET /metrics", Host=host)[0] == 421
    status, body = ask(server.ports["sqs"], f"GET {LIST_QUEUES}", Host=host)
    assert (status, b"http_hosts" in body) == (421, True)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.:15672",
        "queue.localhost",
        "127.0.0.1:1",
        "[::1]:1",
        "192.0.2.1",
        "broker.example.com",
        "one.brokers.example.com:80",
        "",
    ],
)
def test_names_of_this_server_and_addresses_are_answered(server: ServerProcess, host: str) -> None:
    assert ask(server.ports["http"], "GET /api/overview", Host=host, **GUEST)[0] == 200
    assert ask(server.ports["sqs"], f"GET {LIST_QUEUES}", Host=host)[0] == 200


def test_health_is_told_under_every_name(server: ServerProcess) -> None:
    assert ask(server.ports["http"], "GET /health/live", Host="balancer.example")[0] == 200


def test_a_server_for_other_machines_answers_to_names_without_a_dot(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--host", "0.0.0.0", "--sqs-auth", "off") as server:
        for host in ("broker", "leveret:9324"):
            assert ask(server.ports["http"], "GET /metrics", Host=host)[0] == 200
            assert ask(server.ports["sqs"], f"GET {LIST_QUEUES}", Host=host)[0] == 200
        assert ask(server.ports["sqs"], f"GET {LIST_QUEUES}", Host="evil.example")[0] == 421


def test_every_name_is_answered_if_the_operator_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--http-hosts", "*") as server:
        assert ask(server.ports["http"], "GET /metrics", Host="evil.example")[0] == 200


@pytest.mark.parametrize("header", ["Forwarded", "Via", "X_Forwarded_For", "X_Forwarded_Host", "X_Real_IP"])
def test_a_client_of_a_proxy_is_not_on_this_machine(server: ServerProcess, header: str) -> None:
    port = server.ports["http"]
    proxied = {header: "192.0.2.1", "X_Forwarded_Proto": "https"}
    assert ask(port, "GET /api/overview", **proxied, **GUEST)[0] == 401
    assert ask(port, "GET /metrics", **proxied)[0] == 401
    login = json.dumps({"user": "guest", "password": "guest"})
    assert ask(port, "POST /console/session", login, **proxied)[0] == 401
    status, body = ask(port, "GET /api/overview", **{header: "192.0.2.1"}, **GUEST)
    assert (status, b"TLS" in body) == (403, True)


CROSS_SITE = {
    "an image": {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Referer": "http://evil.example/"},
    "a page of another port": {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
    "a form": {"Origin": "http://evil.example", "Content_Type": "application/x-www-form-urlencoded"},
    "a page in a sandbox": {"Origin": "null"},
    "an image without TLS": {"User_Agent": FIREFOX, "Accept_Language": "en", "Accept": "image/*"},
}


@pytest.mark.parametrize("name", CROSS_SITE)
def test_a_page_of_a_stranger_cannot_use_sqs(server: ServerProcess, name: str) -> None:
    port, headers = server.ports["sqs"], CROSS_SITE[name]
    status, body = ask(port, f"GET {MAKE_QUEUE}", **headers)
    assert (status, b"http_origins" in body) == (403, True)
    assert ask(port, "POST /", MAKE_QUEUE[2:], **headers)[0] == 403
    target = {"X_Amz_Target": "AmazonSQS.ListQueues"}
    assert ask(port, "POST /", "{}", **headers, **target)[0] == 403
    assert b"orders" not in ask(port, f"GET {LIST_QUEUES}")[1]


def test_sqs_can_be_used_by_tools_by_named_origins_and_from_the_address_bar(server: ServerProcess) -> None:
    port = server.ports["sqs"]
    firefox = {"User_Agent": FIREFOX, "Accept_Language": "en"}
    assert ask(port, f"GET {LIST_QUEUES}", User_Agent="Boto3/1.40")[0] == 200
    assert ask(port, f"GET {LIST_QUEUES}", User_Agent="Mozilla/5.0 (compatible; pycurl)")[0] == 200  # Celery
    assert ask(port, f"GET {LIST_QUEUES}", Origin="https://a.example", **firefox)[0] == 200
    assert ask(port, f"GET {LIST_QUEUES}", Sec_Fetch_Site="none", **firefox)[0] == 200
