import signal
import socket
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


def connect(server: ServerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(server.url))


def publish(server: ServerProcess, bodies: list[bytes], queue: str = "orders") -> None:
    """Publish persistent messages to a durable queue and wait for the confirms."""
    with connect(server) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True)
        for body in bodies:
            channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))


def received(server: ServerProcess, queue: str = "orders") -> list[bytes]:
    """Take everything from a queue."""
    bodies: list[bytes] = []
    with connect(server) as connection:
        channel = connection.channel()
        while True:
            frame, _, body = channel.basic_get(queue, auto_ack=True)
            if frame is None:
                return bodies
            bodies.append(body)


def test_a_client_is_told_that_the_server_stops(server: ServerProcess) -> None:
    connection = connect(server)
    server.signal(signal.SIGTERM)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as raised:
        connection.process_data_events(time_limit=PATIENCE_S)
    text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    assert (raised.value.reply_code, raised.value.reply_text) == (320, text)
    assert server.wait() == 0
    assert "stopping signal=SIGTERM" in server.text
    assert server.text.endswith("stopped\n")


def test_what_was_published_is_there_after_a_restart(server: ServerProcess) -> None:
    publish(server, [b"one", b"two"])
    assert server.stop() == 0
    server.start()
    assert received(server) == [b"one", b"two"]


def test_what_was_confirmed_survives_a_kill(server: ServerProcess) -> None:
    bodies = [b"%d" % number for number in range(100)]
    publish(server, bodies)
    server.kill()
    server.start()
    assert received(server) == bodies


def test_no_client_comes_in_while_the_server_stops(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--drain-s", str(PATIENCE_S)) as server:
        connection = connect(server)
        server.signal(signal.SIGINT)
        server.wait_for("stopping signal=SIGINT")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.port))
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            connection.process_data_events(time_limit=PATIENCE_S)
        assert server.wait() == 0


def test_a_client_that_does_not_answer_is_not_waited_for_long(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--drain-s", "100ms") as server:
        connection = connect(server)
        assert server.stop() == 0
        assert "clients did not close in time connections=1" in server.text
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connection.process_data_events(time_limit=PATIENCE_S)


def test_an_idle_client_that_does_not_answer_does_not_use_up_the_time_of_others(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--drain-s", "1h") as server:
        connection = connect(server)
        assert server.stop() == 0
        assert "clients did not close in time connections=1" in server.text
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):  # it has been told why all the same
            connection.process_data_events(time_limit=PATIENCE_S)


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--drain-s", "1h") as server:
        publish(server, [b"one"])
        connection = connect(server)
        server.signal(signal.SIGTERM)
        server.wait_for("stopping")
        server.signal(signal.SIGTERM)
        assert server.wait() == 128 + signal.SIGTERM
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connection.process_data_events(time_limit=PATIENCE_S)
        server.start("--drain-s", "10")
        assert received(server) == [b"one"]
