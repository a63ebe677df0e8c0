"""Large bodies: whether one is wanted is decided by the headers, before anything of it is kept."""

import hashlib
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.protocols.sqs.server import KEY, REGION, SECRET, add_key
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

MIB = 1 << 20
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
EXPECT = "Expect: 100-continue"
GUEST = f"Authorization: Basic {b64encode(b'guest:guest').decode()}"
WRONG = f"Authorization: Basic {b64encode(b'guest:wrong').decode()}"
SEND = "POST /queues/orders/messages"
CHUNKED = -1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that guest has an access key of."""
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        add_key(running, "guest", KEY, SECRET)
        yield running


def head(line: str, *headers: str, length: int = MIB, host: str = "localhost") -> bytes:
    """A request without its body."""
    size = "Transfer-Encoding: chunked" if length == CHUNKED else f"Content-Length: {length}"
    return "\r\n".join((f"{line} HTTP/1.1", f"Host: {host}", *headers, size, "", "")).encode()


def answer_to(port: int, data: bytes) -> tuple[int, bytes]:
    """What a client is told that has sent these bytes and waits: the status, and all that it can read."""
    with closing(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) as client:
        client.sendall(data)
        said = client.recv(65_536)
        while not said.startswith(CONTINUE) and (more := client.recv(65_536)):
            said += more
    return int(said.split()[1]), said


REFUSED: dict[str, tuple[int, bytes]] = {
    "nobody": (401, head(SEND)),
    "nobody, who asks": (401, head(SEND, EXPECT)),
    "nobody, in chunks": (401, head(SEND, length=CHUNKED) + b"1\r\nx\r\n"),
    "a wrong password": (401, head(SEND, WRONG, EXPECT)),
    "nobody, to the management API": (401, head("PUT /api/queues/%2F/orders")),
    "nobody, to the verbs of operators": (401, head("POST /operator/add_user")),
    "a login of a mebibyte": (413, head("POST /console/session")),
    "a name of another server": (421, head(SEND, GUEST, host="evil.example")),
    "a page of another origin": (403, head(SEND, GUEST, "Origin: http://evil.example")),
    "a body for a health check": (200, head("GET /health/live")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_is_refused_before_its_body(server: ServerProcess, name: str) -> None:
    status, data = REFUSED[name]
    answered, said = answer_to(server.ports["http"], data)
    assert (answered, b"Connection: close" in said) == (status, True)
    if "management" in name:
        assert b'"error"' in said  # as RabbitMQ says it


def test_a_body_that_is_wanted_is_asked_for_and_read(server: ServerProcess) -> None:
    port = server.ports["http"]
    assert answer_to(port, head(SEND, GUEST, EXPECT)) == (100, CONTINUE)
    assert answer_to(port, head("PUT /queues/orders", GUEST, "Connection: close", length=2) + b"{}")[0] == 201
    body = b'{"payload": "' + b"x" * MIB + b'"}'
    with closing(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) as client:
        client.sendall(head(SEND, GUEST, EXPECT, length=len(body)))
        assert client.recv(100) == CONTINUE
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 201 ")


def test_requests_are_counted_once_and_refused_by_their_headers(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--http-rate-max", "1", "--http-burst-max", "3") as server:
        port = server.ports["http"]
        body = b"{}".ljust(20_000)
        asked = [answer_to(port, head("PUT /queues/q", GUEST, "Connection: close", length=20_000) + body) for _ in "ab"]
        assert [status for status, _ in asked] == [201, 200]
        statuses = [answer_to(port, head("PUT /queues/q", GUEST, EXPECT))[0] for _ in range(3)]
    assert statuses.count(429) >= 1
    assert set(statuses) <= {100, 429}


def signed(server: ServerProcess, *, body: bytes = b"{}", hashed: bool = False, **changed: str) -> bytes:
    """The head of a request of SQS with a signature; what is changed afterwards is not signed."""
    address = f"127.0.0.1:{server.ports['sqs']}"
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "Host": address}
    if hashed:
        headers["X-Amz-Content-SHA256"] = hashlib.sha256(body).hexdigest()
    request = AWSRequest("POST", f"http://{address}/", data=body, headers=headers)
    SigV4Auth(Credentials(KEY, SECRET), "sqs", REGION).add_auth(request)
    lines = {**dict(request.headers.items()), **{name.replace("_", "-"): value for name, value in changed.items()}}
    del lines["Host"]
    return head("POST /", *(f"{name}: {value}" for name, value in lines.items()), EXPECT, length=MIB, host=address)


def test_sqs_looks_at_keys_and_times_before_the_body(server: ServerProcess) -> None:
    port = server.ports["sqs"]
    assert answer_to(port, signed(server))[0] == 100
    status, said = answer_to(port, signed(server).replace(KEY.encode(), b"AKIAUNKNOWN"))
    assert (status, b"UnrecognizedClient" in said) == (403, True)
    status, said = answer_to(port, head("POST /", "X-Amz-Target: AmazonSQS.ListQueues", EXPECT))
    assert (status, b"MissingAuthenticationToken" in said) == (403, True)
    long_ago = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - 3_600))
    day = time.strftime("%Y%m%d").encode()
    status, said = answer_to(
        port, signed(server, X_Amz_Date=long_ago).replace(day + b"/", long_ago[:8].encode() + b"/")
    )
    assert (status, b"RequestExpired" in said) == (403, True)


def test_sqs_looks_at_the_signature_before_the_body_if_the_hash_is_given(server: ServerProcess) -> None:
    port = server.ports["sqs"]
    assert answer_to(port, signed(server, hashed=True))[0] == 100
    forged = signed(server, hashed=True, X_Amz_Content_SHA256="0" * 64)
    status, said = answer_to(port, forged)
    assert (status, b"SignatureDoesNotMatch" in said or b"InvalidSignature" in said) == (403, True)


def test_bodies_of_a_stranger_take_no_memory(server: ServerProcess) -> None:
    clients = [socket.create_connection(("127.0.0.1", server.ports["http"]), PATIENCE_S) for _ in range(10)]
    try:
        for client in clients:
            client.sendall(head(SEND, length=10 * MIB))
            assert client.recv(100).startswith(b"HTTP/1.1 401 ")
    finally:
        for client in clients:
            client.close()
