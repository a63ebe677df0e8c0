"""pika on a stream, as RabbitMQ's tutorial does it."""

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosedByBroker

from tests.clients.conftest import Broker, Unique
from tests.waiting import PATIENCE_S

COUNT = 100


@pytest.fixture
def connection(broker: Broker) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def stream(connection: pika.BlockingConnection, unique: Unique) -> str:
    """A stream with numbers in it."""
    name = unique("hello-stream")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream", "x-max-length-bytes": 5_000_000})
    for number in range(COUNT):
        channel.basic_publish("", name, b"%d" % number)
    return name


def read(channel: BlockingChannel, stream: str, offset: object, count: int) -> list[tuple[int, bytes]]:
    channel.basic_qos(prefetch_count=10)
    found = []
    for method, properties, body in channel.consume(
        stream, arguments={"x-stream-offset": offset}, inactivity_timeout=PATIENCE_S
    ):
        if method is None:
            break
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_a_stream_is_read_from_the_start_and_again(connection: pika.BlockingConnection, stream: str) -> None:
    channel = connection.channel()
    expected = [(number, b"%d" % number) for number in range(COUNT)]
    assert read(channel, stream, "first", COUNT) == expected
    assert read(channel, stream, "first", COUNT) == expected
    assert read(channel, stream, 90, 10) == expected[90:]


def test_a_stream_counts_its_messages(connection: pika.BlockingConnection, stream: str) -> None:
    assert connection.channel().queue_declare(stream, passive=True).method.message_count == COUNT
    assert connection.channel().queue_delete(stream).method.message_count in (0, COUNT)


def test_no_message_is_taken_from_a_stream(connection: pika.BlockingConnection, stream: str) -> None:
    with pytest.raises(ConnectionClosedByBroker, match=r"basic\.get not supported by stream queues"):
        connection.channel().basic_get(stream)
