import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

PROTOCOL_HEADER = b"AMQP\0\0\x09\x01"


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def client(server: ServerProcess) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connected:
        yield connected


def is_refused(server: ServerProcess) -> bool:
    """Whether one more client is hung up on before it hears anything."""
    with client(server) as another:
        try:
            another.sendall(PROTOCOL_HEADER)
            return another.recv(100) == b""
        except ConnectionResetError:
            return True


def test_strangers_are_limited(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--half-open-max", "2", "--handshake-timeout-s", str(PATIENCE_S)) as server:
        with pika.BlockingConnection(pika.URLParameters(server.url)), client(server) as first, client(server):
            with client(server) as third:
                third.sendall(PROTOCOL_HEADER)
                assert third.recv(100), "a new one is heard"
            assert first.recv(100) == b"", "the oldest makes room for it"
        server.wait_for('reason="half_open_max (2) is reached"')


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_ip_max"])
def test_connections_are_limited(tmp_path: Path, limit: str) -> None:
    with ServerProcess(tmp_path, f"--{limit.replace('_', '-')}", "3") as server:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(pika.BlockingConnection(pika.URLParameters(server.url)))
            assert is_refused(server)
        server.wait_for(f'reason="{limit} (3) is reached"')
        pika.BlockingConnection(pika.URLParameters(server.url)).close()


def test_a_stranger_who_says_nothing_is_hung_up_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--handshake-timeout-s", "1") as server, client(server) as silent:
        assert silent.recv(100) == b""


def test_the_log_tells_who_came_and_who_was_refused_but_no_password(server: ServerProcess) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.url)):
        pass
    wrong = pika.PlainCredentials("eve\nINFO forged", "hush-hush")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port, credentials=wrong))
    server.wait_for("login refused")
    assert "connection opened peer=127.0.0.1:" in server.text
    assert "user=guest vhost=/ mechanism=PLAIN tls=false" in server.text
    assert "connection closed peer=127.0.0.1:" in server.text
    opened, refused, closed = (
        next(re.findall(r"connection=(\w+)", line)[0] for line in server.text.splitlines() if event in line)
        for event in ("connection opened", "login refused", "connection closed")
    )
    assert opened == closed != refused
    assert "hush" not in server.text
    assert not [line for line in server.text.splitlines() if line.startswith("INFO forged")]


def test_a_client_that_goes_without_a_word_leaves_its_messages_to_others(server: ServerProcess) -> None:
    holder = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = holder.channel()
    channel.queue_declare("orders")
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"one")
    assert channel.basic_get("orders")[2] == b"one"
    holder._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    server.wait_for("connection closed")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        holder.process_data_events(time_limit=PATIENCE_S)
    with pika.BlockingConnection(pika.URLParameters(server.url)) as other:
        frame, _, body = other.channel().basic_get("orders", auto_ack=True)
        assert (frame.redelivered, body) == (True, b"one")


def test_a_consumer_that_does_not_read_takes_no_memory(server: ServerProcess) -> None:
    body, persistent = bytes(100_000), pika.BasicProperties(delivery_mode=2)
    consumer, publisher = (pika.BlockingConnection(pika.URLParameters(server.url)) for _ in range(2))
    with consumer, publisher:
        channel = publisher.channel()
        channel.queue_declare("orders", durable=True)
        channel.confirm_delivery()
        consumer.channel().basic_consume("orders", lambda *delivery: None, auto_ack=True)
        channel.basic_publish("", "orders", body, persistent)
        before = resident_bytes(server.pid)
        for _ in range(600):
            channel.basic_publish("", "orders", body, persistent)
        assert resident_bytes(server.pid) < before + 30_000_000, "60 MB were published"
