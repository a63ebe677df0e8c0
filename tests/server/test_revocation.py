"""Client certificates that are revoked: refused at the handshake, and cut off when a new list names them."""

import datetime
import http.client
import json
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pika.credentials import ExternalCredentials

import leveret
from leveret.security.access import Access
from tests.server.certificates import DAY, Authority, Identity
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until

SECONDS_2 = datetime.timedelta(seconds=2)
READ_AGAIN = "certificates read again"
REFUSED = (pika.exceptions.AMQPError, OSError)


@pytest.fixture
def flags(tmp_path: Path, authority: Authority) -> list[str]:
    own = authority.issue("localhost", file="server")
    with leveret.open(tmp_path / "data") as broker, broker.runtime as core:
        access = Access(core, ("guest", "guest"))
        for name in ("alice", "bob"):
            access.add_user(name, "")
            access.set_permission(name, "/", ".*", ".*", ".*")
    files = {"cert": own.cert, "key": own.key, "client-ca": authority.cert, "crl": tmp_path / "revoked.crl"}
    return ["--amqps-port", "0", *(word for name, path in files.items() for word in (f"--tls-{name}", str(path)))]


@pytest.fixture
def server(tmp_path: Path, authority: Authority, flags: list[str]) -> Iterator[ServerProcess]:
    authority.revoke()
    with ServerProcess(tmp_path, *flags) as server:
        yield server


def trusting(authority: Authority, own: Identity | None, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.cert))
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    if version is not None:
        context.maximum_version = version
    return context


def connect(server: ServerProcess, authority: Authority, own: Identity) -> pika.BlockingConnection:
    secured = pika.SSLOptions(trusting(authority, own), "127.0.0.1")
    port, login = server.ports["amqps"], ExternalCredentials()
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, ssl_options=secured, credentials=login))


def reload(server: ServerProcess) -> None:
    """Let the server read its files, whether it has looked at them by itself or not."""
    before = server.text.count(READ_AGAIN)
    server.signal(signal.SIGHUP)
    wait_until(lambda: server.text.count(READ_AGAIN) > before)


def test_a_revoked_certificate_is_refused(server: ServerProcess, authority: Authority) -> None:
    alice, bob = authority.issue("alice", file="alice"), authority.issue("bob", file="bob")
    connect(server, authority, alice).close()
    authority.revoke([alice])
    reload(server)
    with pytest.raises(REFUSED):
        connect(server, authority, alice)
    server.wait_for("certificate revoked")
    connect(server, authority, bob).close()


def test_connections_of_a_certificate_end_when_a_new_list_names_it(server: ServerProcess, authority: Authority) -> None:
    """Without a signal: the file is looked at. Those of others go on, by AMQP and by HTTP."""
    alice, bob = authority.issue("alice", file="alice"), authority.issue("bob", file="bob")
    ours, theirs = connect(server, authority, alice), connect(server, authority, bob)
    requests = [
        http.client.HTTPSConnection(
            "127.0.0.1", server.ports["https"], timeout=PATIENCE_S, context=trusting(authority, each)
        )
        for each in (alice, bob)
    ]
    for each in requests:
        each.request("GET", "/health/live")
        assert each.getresponse().read()
    authority.revoke([alice])
    server.wait_for('connections closed count=2 reason="their certificates are revoked"')
    with pytest.raises(pika.exceptions.AMQPError):
        ours.process_data_events(time_limit=PATIENCE_S)
    theirs.process_data_events()
    theirs.channel().queue_declare("orders")
    theirs.close()
    revoked = requests[0].sock
    assert isinstance(revoked, ssl.SSLSocket)
    with pytest.raises(OSError), revoked:  # noqa: PT011, PT012 - a reset or an end without goodbye
        if not revoked.recv(1):
            raise ConnectionResetError
    requests[1].request("GET", "/health/live")
    assert requests[1].getresponse().status == 200
    for each in requests:
        each.close()


def exchange(server: ServerProcess, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSocket:
    """A connection on which the server has said something: by then a session can be resumed."""
    plain = socket.create_connection(("127.0.0.1", server.ports["amqps"]), timeout=PATIENCE_S)
    secured = context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
    secured.sendall(b"AMQP\0\0\x09\x01")
    if not secured.recv(100):
        secured.close()
        raise ConnectionResetError("the server closed the connection")
    return secured


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_from_before_cannot_be_resumed(
    server: ServerProcess, authority: Authority, version: ssl.TLSVersion
) -> None:
    """A session that is resumed has no certificate checked: a list would have no effect on it."""
    context = trusting(authority, authority.issue("alice", file="alice"), version)
    with exchange(server, context, None) as first:
        session = first.session
    assert session is not None
    with exchange(server, context, session) as second:
        assert second.session_reused
    authority.revoke([Identity(authority.cert.parent / "alice.pem", authority.cert.parent / "alice.key")])
    reload(server)
    with pytest.raises(OSError):  # noqa: PT011 - an alert or a reset
        exchange(server, context, session)
    server.wait_for("certificate revoked")


def test_a_list_that_expires_lets_no_certificate_in(tmp_path: Path, authority: Authority, flags: list[str]) -> None:
    alice = authority.issue("alice", file="alice")
    authority.revoke(ends=SECONDS_2)
    with ServerProcess(tmp_path, *flags) as server:
        context = trusting(authority, alice)
        server.wait_for("revocation list expired")
        server.wait_for(READ_AGAIN)
        with pytest.raises(OSError):  # noqa: PT011
            exchange(server, context, None)
        server.wait_for("CRL has expired")
        with exchange(server, trusting(authority, None), None) as anonymous:  # who shows none is not concerned
            assert anonymous.version()
        authority.revoke()
        reload(server)
        connect(server, authority, alice).close()


def test_a_damaged_list_changes_nothing_and_is_tried_again(
    server: ServerProcess, authority: Authority, tmp_path: Path
) -> None:
    alice = authority.issue("alice", file="alice")
    good = authority.revoke([alice], "next.crl")
    shutil.copy(authority.cert, tmp_path / "revoked.crl")
    server.signal(signal.SIGHUP)
    server.wait_for("there is no revocation list in")
    connect(server, authority, alice).close()
    good.rename(tmp_path / "revoked.crl")
    server.wait_for(READ_AGAIN)
    with pytest.raises(REFUSED):
        connect(server, authority, alice)


def test_an_authority_without_a_list_vouches_for_nobody(server: ServerProcess, authority: Authority) -> None:
    """The lists are of another authority than the one that clients are checked against: all are refused, not let in."""
    folder = authority.cert.parent
    Authority(folder, "Another Authority").revoke()
    reload(server)
    with pytest.raises(REFUSED):
        connect(server, authority, authority.issue("alice", file="alice"))
    server.wait_for("unable to get certificate CRL")


def test_when_lists_expire_is_told_before(tmp_path: Path, authority: Authority, flags: list[str]) -> None:
    authority.revoke(ends=datetime.timedelta(hours=2), age=2 * DAY)
    with ServerProcess(tmp_path, *flags) as server:
        server.wait_for("revocation list expires soon")
        asked = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
        asked.request("GET", "/metrics")
        text = asked.getresponse().read().decode()
        assert 'leveret_tls_revocation_list_expiry_timestamp_seconds{of="clients"} ' in text
        path = "/api/health/checks/certificate-expiration/1/days"
        asked.request("GET", path, headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
        answer = asked.getresponse()
        assert answer.status == 503
        told = json.loads(answer.read())["expired"]
        assert [row.get("revocation_list") for row in told] == [None, "clients"]
        asked.close()


def test_lists_that_cannot_be_read_at_start(tmp_path: Path, authority: Authority, flags: list[str]) -> None:
    with pytest.raises(AssertionError, match=r"the revocation lists of .*revoked\.crl cannot be read: No such file"):
        ServerProcess(tmp_path, *flags).start()
