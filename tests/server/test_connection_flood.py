"""Silent sockets of one address on every port, many times what is allowed: clients of other addresses are served."""

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika
import pytest

from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

HALF_OPEN_MAX = 20
FLOOD = 300
FLOODING = "127.0.0.2"
LIMITS = ("--half-open-max", str(HALF_OPEN_MAX), "--handshake-timeout-s", str(PATIENCE_S), "--sqs-auth", "off")
GUEST = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


@contextmanager
def flooded(port: int, first: bytes = b"") -> Iterator[None]:
    """Sockets that say nothing, or the beginning of something, and are kept open."""
    with ExitStack() as stack:
        for _ in range(FLOOD):
            silent = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (FLOODING, 0))
            stack.enter_context(silent)
            silent.send(first)
        yield


def asked(port: int, method: str, path: str, body: str = "", **headers: str) -> int:
    """The status of an answer, by a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S, source_address=("127.0.0.1", 0))
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse().status
    finally:
        connection.close()


def use(server: ServerProcess, earlier: pika.BlockingConnection) -> None:
    """Use every protocol."""
    http_port, sqs_port = server.ports["http"], server.ports["sqs"]
    assert asked(http_port, "GET", "/health/live") == 200
    assert asked(http_port, "GET", "/health/ready") == 200
    assert asked(http_port, "GET", "/queues", **GUEST) == 200
    list_queues = {"X_Amz_Target": "AmazonSQS.ListQueues", "Content_Type": "application/x-amz-json-1.0"}
    assert asked(sqs_port, "POST", "/", json.dumps({}), **list_queues) == 200
    for connection in (earlier, pika.BlockingConnection(pika.URLParameters(server.url))):
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "orders", b"one")
        assert channel.basic_get("orders", auto_ack=True)[2] == b"one"
        channel.close()
    connection.close()


@pytest.mark.parametrize("first", [b"", b"GET /"], ids=["silent", "half a request"])
@pytest.mark.parametrize("name", ["amqp", "http", "sqs"])
def test_sockets_that_never_authenticate_keep_nobody_out(tmp_path: Path, name: str, first: bytes) -> None:
    with ServerProcess(tmp_path, *LIMITS) as server:
        earlier = pika.BlockingConnection(pika.URLParameters(server.url))
        with earlier, flooded(server.ports[name], first):
            use(server, earlier)
        server.wait_for(f"connection evicted listener={name} peer={FLOODING}:")
        lines = [line for line in server.text.splitlines() if FLOODING in line]
        assert len(lines) < FLOOD / 4, "not a line for each"


def test_requests_without_a_login_do_not_keep_a_connection(tmp_path: Path) -> None:
    request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ServerProcess(tmp_path, *LIMITS) as server:
        earlier = pika.BlockingConnection(pika.URLParameters(server.url))
        with earlier, flooded(server.ports["http"], request):
            use(server, earlier)


def test_health_is_answered_when_one_user_has_all_connections(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--connections-max", "5") as server, ExitStack() as stack:
        port = server.ports["http"]
        for _ in range(5):
            held = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            stack.callback(held.close)
            held.request("GET", "/queues", headers=GUEST)
            assert held.getresponse().read()
        for path, status in (("/health/live", 200), ("/health/ready", 200), ("/queues", 503), ("/metrics", 503)):
            assert asked(port, "GET", path, **GUEST) == status, path


def test_sockets_that_never_authenticate_leave_file_descriptors_to_others(tmp_path: Path) -> None:
    few = ("sh", "-c", 'ulimit -n 200; exec "$@"', "sh")
    with ServerProcess(tmp_path, "--handshake-timeout-s", str(PATIENCE_S), "--sqs-auth", "off", prefix=few) as server:
        server.wait_for("few open files allowed=200")
        with pika.BlockingConnection(pika.URLParameters(server.url)) as earlier, flooded(server.ports["amqp"]):
            use(server, earlier)
            assert len(list(Path(f"/proc/{server.pid}/fd").iterdir())) < 180
