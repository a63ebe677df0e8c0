import signal
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


def test_publishers_wait_while_memory_is_short_and_consumers_go_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders", durable=True)
            channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2))
        server.stop()
        server.start("--memory-limit", "1MiB")
        server.wait_for("low on memory")
        reasons: list[str] = []
        publisher, consumer = (pika.BlockingConnection(pika.URLParameters(server.url)) for _ in range(2))
        publisher.add_on_connection_blocked_callback(lambda _, method: reasons.append(method.method.reason))
        publisher.channel().basic_publish("", "orders", b"two")
        while not reasons:
            publisher.process_data_events(time_limit=1)
        assert reasons == ["low on memory"]
        assert consumer.channel().basic_get("orders", auto_ack=True)[2] == b"one"
        server.kill()
        for connection in (publisher, consumer):
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connection.process_data_events(time_limit=PATIENCE_S)


def test_publishers_wait_while_the_disk_is_short(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--disk-alarm-bytes", "1000TiB") as server:
        server.wait_for('alarm reason="low on disk"')


def test_a_blocked_publisher_hears_that_the_server_stops(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory-limit", "1MiB", "--drain-s", str(PATIENCE_S)) as server:
        server.wait_for("low on memory")
        publisher = pika.BlockingConnection(pika.URLParameters(server.url))
        publisher.channel().basic_publish("", "orders", b"one")
        server.signal(signal.SIGTERM)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            publisher.process_data_events(time_limit=PATIENCE_S)
        assert server.wait() == 0
        assert "clients did not close in time" not in server.text
