"""Failed logins of every protocol are in the audit log of a server, counted."""

import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPConnectionError

from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("audit")) as running:
        yield running


def refusals(server: ServerProcess) -> list[dict[str, Any]]:
    path = server.data / "audit-refusals.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def failed_by(server: ServerProcess, user: str) -> dict[str, Any]:
    """The row about a user, once it is written."""
    return wait_until(lambda: next((row for row in refusals(server) if row["by"] == user), None))


def test_amqp(server: ServerProcess) -> None:
    credentials = pika.PlainCredentials("amqp-user", "wrong")
    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.ports["amqp"], credentials=credentials))
    row = failed_by(server, "amqp-user")
    assert (row["act"], row["protocol"], row["peer"]) == ("log in", "AMQP", "127.0.0.1")
    assert "wrong name or password" in row["outcome"]


def test_http(server: ServerProcess) -> None:
    for _ in range(3):
        assert Api(server.ports["http"], "http-user" + "x" * 2_000, "wrong").call("GET", "/whoami").status == 401
    row = wait_until(lambda: next((row for row in refusals(server) if row["by"].startswith("http-user")), None))
    assert (row["protocol"], row["peer"], len(row["by"]) <= 512) == ("HTTP", "127.0.0.1", True)
    assert sum(row["by"].startswith("http-user") for row in refusals(server)) == 1, "the others are counted"


def test_a_token(server: ServerProcess) -> None:
    assert Api(server.ports["http"], token="no.such.token").call("GET", "/whoami").status == 401
    assert failed_by(server, "(token)")["protocol"] == "HTTP"


def test_the_console(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
    body = json.dumps({"user": "console-user", "password": "wrong"})
    connection.request("POST", "/console/session", body, {"Content-Type": "application/json"})
    assert connection.getresponse().status == 401
    connection.close()
    assert failed_by(server, "console-user")["protocol"] == "console"


def test_sqs(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["sqs"], timeout=PATIENCE_S)
    connection.request("GET", "/?Action=ListQueues")
    assert connection.getresponse().status == 403
    connection.close()
    assert failed_by(server, "(unsigned)")["protocol"] == "SQS"


def test_passwords_are_in_no_file(server: ServerProcess) -> None:
    secret = "unmistakable-secret"
    Api(server.ports["http"], "guest", secret).call("GET", "/whoami")
    failed_by(server, "guest")
    basic = base64.b64encode(f"guest:{secret}".encode()).decode()
    for path in server.data.glob("audit*"):
        assert secret not in path.read_text()
        assert basic not in path.read_text()
