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
from tests.server.certificates import Authority, Identity
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


@pytest.fixture
def identity(authority: Authority) -> Identity:
    return authority.issue("localhost", file="server")


@pytest.fixture
def secure(tmp_path: Path, authority: Authority, identity: Identity) -> Iterator[ServerProcess]:
    flags = ["--amqps-port", "0", "--tls-cert", str(identity.cert), "--tls-key", str(identity.key)]
    with leveret.open(tmp_path / "data") as broker, broker.runtime as core:
        access = Access(core, ("guest", "guest"))
        access.add_user("alice", "")
        access.set_permission("alice", "/", ".*", ".*", ".*")
    with ServerProcess(tmp_path, *flags, "--tls-client-ca", str(authority.cert)) as server:
        yield server


def trusting(authority: Authority, own: Identity | None = None) -> ssl.SSLContext:
    """The context of a client, with or without a certificate of its own."""
    context = ssl.create_default_context(cafile=str(authority.cert))
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    return context


def connect(server: ServerProcess, context: ssl.SSLContext, **options: object) -> pika.BlockingConnection:
    secured = pika.SSLOptions(context, "127.0.0.1")
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", server.ports["amqps"], ssl_options=secured, **options)
    )


def test_a_password_by_tls(secure: ServerProcess, authority: Authority) -> None:
    with connect(secure, trusting(authority)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", b"x" * 1_000_000)
        assert len(channel.basic_get("orders", auto_ack=True)[2]) == 1_000_000


def test_a_certificate_instead_of_a_password(secure: ServerProcess, authority: Authority) -> None:
    alice = authority.issue("alice", file="alice")
    with connect(secure, trusting(authority, alice), credentials=ExternalCredentials()) as connection:
        assert connection.is_open
    secure.wait_for("user=alice vhost=/ mechanism=EXTERNAL tls=true")


def test_the_certificate_of_nobody_we_know(secure: ServerProcess, authority: Authority) -> None:
    mallory = authority.issue("mallory", file="mallory")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(secure, trusting(authority, mallory), credentials=ExternalCredentials())


def test_a_certificate_that_somebody_else_signed(secure: ServerProcess, authority: Authority, tmp_path: Path) -> None:
    forged = Authority(tmp_path, "Another Authority").issue("alice", file="forged")
    with pytest.raises((pika.exceptions.AMQPConnectionError, OSError)):
        connect(secure, trusting(authority, forged), credentials=ExternalCredentials())
    secure.wait_for("tls handshake failed")


def test_plain_bytes_on_the_port_for_tls(secure: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", secure.ports["amqps"]), timeout=PATIENCE_S) as client:
        client.sendall(b"AMQP\0\0\x09\x01")
        while client.recv(100):
            pass
    secure.wait_for("tls handshake failed")


def test_a_client_that_never_shakes_hands(tmp_path: Path, identity: Identity) -> None:
    flags = ["--tls-cert", str(identity.cert), "--tls-key", str(identity.key), "--handshake-timeout-s", "1"]
    with (
        ServerProcess(tmp_path, "--amqps-port", "0", *flags) as server,
        socket.create_connection(("127.0.0.1", server.ports["amqps"]), timeout=PATIENCE_S) as client,
    ):
        assert client.recv(100) == b""
        server.wait_for("tls handshake failed")


def test_certificates_are_read_again(
    secure: ServerProcess, authority: Authority, identity: Identity, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "Another Authority")
    renewed = other.issue("localhost", file="renewed")
    with connect(secure, trusting(authority)) as before:
        shutil.copy(renewed.cert, identity.cert)
        secure.signal(signal.SIGHUP)
        secure.wait_for("certificates not read again")
        connect(secure, trusting(authority)).close()  # a certificate without its key: the old ones stay
        shutil.copy(renewed.key, identity.key)
        secure.signal(signal.SIGHUP)
        secure.wait_for("certificates read again")
        connect(secure, trusting(other)).close()
        before.process_data_events()
        assert before.is_open
