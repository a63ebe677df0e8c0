"""Audit rows that are really forwarded: by syslog over UDP, TCP, TLS and a local socket, and by HTTP."""

import json
import os
import queue
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.observability.audit import Audit
from leveret.observability.chain import hash_of
from leveret.server.audit_forward import SyslogAddress, forwarder_of, place_of
from tests.protocols.management.scene import Api
from tests.server.certificates import Authority
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until

MESSAGE = re.compile(
    rb"<(\d+)>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\S+) leveret (\d+) (audit(?:-clients|-refusals)?) - (\{.*\})"
)


def parsed(text: bytes) -> tuple[int, str, dict[str, Any]]:
    """The priority, the log and the row of a message."""
    found = MESSAGE.fullmatch(text)
    assert found is not None, text
    assert found[3] == b"hare"
    assert int(found[4]) == os.getpid()
    return int(found[1]), found[5].decode(), json.loads(found[6])


def note(options: ServerOptions, folder: Path) -> Audit:
    """An audit log that forwards, with one row of each kind."""
    forwarder = forwarder_of(options)
    assert forwarder is not None
    audit = Audit(leveret.ManualClock(), str(folder))
    audit.forward(forwarder)
    audit.note("guest", "PUT /api/vhosts/first")
    audit.changed("app", "queue.declare", queue="orders")
    audit.refused("mallory", "log in", "wrong password", "log in by HTTP", "192.0.2.1")
    audit.flush()
    return audit


def check(messages: list[bytes]) -> None:
    assert [(priority, log, row["by"], row["seq"]) for priority, log, row in map(parsed, messages)] == [
        (110, "audit", "guest", 1),
        (110, "audit-clients", "app", 1),
        (108, "audit-refusals", "mallory", 1),
    ]


def options(url: str, **more: Any) -> ServerOptions:
    return ServerOptions(node="hare", audit_forward=url, **more)


def test_udp(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(PATIENCE_S)
        audit = note(options(f"syslog://127.0.0.1:{server.getsockname()[1]}"), tmp_path)
        check([server.recv(65_536) for _ in range(3)])
        audit.close()


def test_a_local_socket(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as server:
        path = tmp_path / "log"
        server.bind(str(path))
        server.settimeout(PATIENCE_S)
        audit = note(options(f"syslog+unix://{path}"), tmp_path)
        check([server.recv(65_536) for _ in range(3)])
        audit.close()


class SyslogServer:
    """Takes connections, by TLS if there is a context, and messages with their length before them."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.messages: queue.Queue[bytes] = queue.Queue()
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                bare, _ = self._listener.accept()
                with suppress(OSError):
                    connection = bare if self._context is None else self._context.wrap_socket(bare, server_side=True)
                    self._connections.append(connection)
                    self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            while digits := b"".join(iter(lambda: stream.read(1).strip(), b"")):
                self.messages.put(stream.read(int(digits)))

    def hang_up(self) -> None:
        """Close the connections, as a server that is restarted does."""
        for each in self._connections:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        self.hang_up()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def next(self, count: int) -> list[bytes]:
        return [self.messages.get(timeout=PATIENCE_S) for _ in range(count)]


def test_tcp_and_a_server_that_is_restarted(tmp_path: Path) -> None:
    with closing(SyslogServer()) as server:
        audit = note(options(f"syslog+tcp://127.0.0.1:{server.port}"), tmp_path)
        check(server.next(3))
        server.hang_up()
        audit.note("guest", "PUT /api/vhosts/second")
        assert parsed(server.next(1)[0])[2]["act"] == "PUT /api/vhosts/second"
        audit.close()


def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.issue("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert, identity.key)
    with closing(SyslogServer(context)) as server:
        url = f"syslog+tls://localhost:{server.port}"
        audit = note(options(url, audit_forward_ca=str(authority.cert)), tmp_path)
        check(server.next(3))
        audit.close()


def test_a_server_whose_certificate_is_not_trusted_gets_nothing(tmp_path: Path) -> None:
    identity = Authority(tmp_path).issue("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert, identity.key)
    with closing(SyslogServer(context)) as server:
        audit = note(options(f"syslog+tls://localhost:{server.port}"), tmp_path)
        assert audit.forwarder is not None
        wait_until(lambda: audit.forwarder is not None and audit.forwarder.failures)
        assert server.messages.empty()
        audit.close()
        assert (audit.forwarder.sent, audit.forwarder.dropped) == (0, 3)


@pytest.fixture
def endpoint() -> Iterator[Callable[..., tuple[str, "queue.Queue[tuple[dict[str, str], bytes]]"]]]:
    """A web server that keeps what it is sent, and answers with the next of some statuses, then with 204."""
    with ExitStack() as stack:

        def start(*statuses: int) -> tuple[str, "queue.Queue[tuple[dict[str, str], bytes]]"]:
            posts: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
            left = list(statuses)

            class Handler(BaseHTTPRequestHandler):
                def do_POST(self) -> None:
                    posts.put((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
                    self.send_response(left.pop(0) if left else 204)
                    self.end_headers()

                def log_message(self, *_: object) -> None:
                    return

            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}/audit", posts

        yield start


def test_http(endpoint: Any, tmp_path: Path) -> None:
    url, posts = endpoint()
    audit = note(options(url, audit_forward_authorization="Bearer open sesame"), tmp_path)
    for log, name in (("audit", "guest"), ("audit-clients", "app"), ("audit-refusals", "mallory")):
        headers, body = posts.get(timeout=PATIENCE_S)
        assert headers["Authorization"] == "Bearer open sesame"
        assert (headers["Content-Type"], headers["X-Leveret-Log"], headers["X-Leveret-Node"]) == (
            "application/x-ndjson",
            log,
            "hare",
        )
        assert json.loads(body)["by"] == name
        assert body == (tmp_path / f"{log}.jsonl").read_bytes(), "as it is in the file"
    audit.note("guest", "PUT /api/vhosts/second")
    row = json.loads(posts.get(timeout=PATIENCE_S)[1])
    assert row["prev"] == hash_of((tmp_path / "audit.jsonl").read_bytes().splitlines()[0])
    audit.close()


def test_http_refusals_are_tried_again_or_dropped(endpoint: Any, tmp_path: Path) -> None:
    url, posts = endpoint(503, 401, 204, 400)
    forwarder = forwarder_of(options(url))
    assert forwarder is not None
    forwarder._waits_s = (0.01,)
    audit = Audit(leveret.ManualClock(), str(tmp_path))
    audit.forward(forwarder)
    audit.note("guest", "first")
    wait_until(lambda: forwarder.sent == 1)
    audit.note("guest", "second")
    wait_until(lambda: forwarder.dropped == 1)
    audit.note("guest", "third")
    wait_until(lambda: forwarder.sent == 2)
    acts = [json.loads(posts.get(timeout=PATIENCE_S)[1])["act"] for _ in range(5)]
    assert acts == ["first", "first", "first", "second", "third"]
    audit.close()


def test_rows_that_the_disk_does_not_take_are_forwarded(endpoint: Any, tmp_path: Path) -> None:
    url, posts = endpoint()
    forwarder = forwarder_of(options(url))
    assert forwarder is not None
    audit = Audit(leveret.ManualClock(), str(tmp_path / "not there"))
    audit.forward(forwarder)
    audit.note("guest", "act")
    assert json.loads(posts.get(timeout=PATIENCE_S)[1])["act"] == "act"
    assert audit.counts()["lost"]["administration"] == 1
    audit.close()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("syslog://logs.example.org", SyslogAddress("syslog", "logs.example.org", 514)),
        ("syslog+tcp://[::1]:1514", SyslogAddress("syslog+tcp", "::1", 1514)),
        ("syslog+tls://logs.example.org/", SyslogAddress("syslog+tls", "logs.example.org", 6514)),
        ("syslog+unix:///dev/log", SyslogAddress("syslog+unix", "/dev/log")),
    ],
)
def test_where_a_syslog_server_is(url: str, place: SyslogAddress) -> None:
    assert place_of(url) == place


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("logs.example.org", "one of syslog://"),
        ("ftp://logs.example.org", "one of syslog://"),
        ("syslog://", "one of syslog://"),
        ("syslog+unix://dev/log", "one of syslog://"),
        ("syslog+tls://me@logs.example.org", "one of syslog://"),
        ("syslog+tls://logs.example.org:x", "correct it"),
        ("syslog://logs.example.org", "without TLS"),
        ("syslog+tcp://192.0.2.1", "without TLS"),
        ("http://192.0.2.1/audit", "without TLS"),
        ("https://me:secret@logs.example.org/", "no user and password"),
    ],
)
def test_urls_that_are_refused(url: str, advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice):
        forwarder_of(options(url))


def test_a_file_of_certificates_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="audit_forward_ca cannot be used"):
        forwarder_of(options("https://logs.example.org/", audit_forward_ca="/nowhere.pem"))


def test_nothing_is_forwarded_by_default() -> None:
    assert forwarder_of(ServerOptions()) is None


def test_a_server_forwards_its_rows_and_counts_them(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as syslog:
        syslog.bind(("127.0.0.1", 0))
        syslog.settimeout(PATIENCE_S)
        url = f"syslog://127.0.0.1:{syslog.getsockname()[1]}"
        with ServerProcess(tmp_path, "--audit-forward", url) as server:
            api = Api(server.ports["http"])
            api.put("/vhosts/forwarded")
            assert b"PUT /api/vhosts/forwarded" in syslog.recv(65_536)
            connection = socket.create_connection(("127.0.0.1", server.ports["http"]), PATIENCE_S)
            with closing(connection), connection.makefile("rb") as answer:
                connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = answer.read().decode()
            assert 'leveret_audit_forwarded_total{outcome="sent"} 1' in text
            assert "leveret_audit_forward_waiting 0" in text
            assert 'leveret_audit_rows_total{log="administration"} 1' in text
            assert 'leveret_audit_rows_lost_total{log="administration"} 0' in text
