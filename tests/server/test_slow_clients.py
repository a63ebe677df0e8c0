"""Clients that do not read, ask for too much or promise too much: the memory of a server process stays as it is."""

import os
from pathlib import Path

from leveret.core.properties import Properties, encode_header
from leveret.wire import methods as m
from leveret.wire.frames import BODY, HEADER
from tests.protocols.amqp.error_rows import MESSAGE_BYTES_MAX
from tests.protocols.amqp.targets import SocketTarget
from tests.protocols.amqp.test_backpressure import BODY_BYTES, MIB, again, publish_frames
from tests.protocols.amqp.wire import Client, frame
from tests.server_process import ServerProcess

GROWTH_BYTES_MAX = 16 * MIB


def connect(server: ServerProcess, channels: tuple[int, ...] = (1,)) -> Client:
    return SocketTarget("127.0.0.1", server.port).connect().open(channels=channels)


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def confirmed(client: Client, count: int) -> None:
    """Wait until so many publishes are confirmed."""
    while client.expect(1, m.BasicAck).delivery_tag < count:
        pass


def test_a_client_that_does_not_read_gets_no_more_than_buffers_hold(server: ServerProcess) -> None:
    count, body = 400, bytes(BODY_BYTES)
    with connect(server) as consumer, connect(server) as publisher:
        publisher.call(1, m.QueueDeclare("q", durable=True))
        publisher.call(1, m.ConfirmSelect())
        consumer.call(1, m.BasicConsume("q", "c", no_ack=True))
        for _ in range(count):
            publisher.raw(publish_frames(body))
        confirmed(publisher, count)
        answer = publisher.call(1, m.QueueDeclare("q", passive=True))
        assert isinstance(answer, m.QueueDeclareOk)
        pushed = count - answer.message_count
        assert pushed * BODY_BYTES < GROWTH_BYTES_MAX
        for tag in range(1, count + 1):
            assert consumer.expect(1, m.BasicDeliver).delivery_tag == tag
            assert consumer.content(1).body == body


def test_bodies_that_are_only_announced_cost_nothing(server: ServerProcess) -> None:
    channels = tuple(range(1, 201))
    with connect(server, channels=channels) as client:
        before = resident_bytes(server.pid)
        for channel in channels:
            client.send(channel, m.BasicPublish("", "q"))
            client.raw(
                frame(HEADER, channel, encode_header(Properties(), MESSAGE_BYTES_MAX)), frame(BODY, channel, b"x")
            )
        client.send(0, m.ConnectionUpdateSecret(b"guest", "to know that all of it was read"))
        client.expect(0, m.ConnectionUpdateSecretOk)
        assert resident_bytes(server.pid) - before < GROWTH_BYTES_MAX


def test_a_flood_of_errors_is_answered_within_bounds(server: ServerProcess) -> None:
    with connect(server) as client:
        before = resident_bytes(server.pid)
        for _ in range(1_000):
            client.send(1, m.QueueDeclare("missing", passive=True))
            client.expect(1, m.ChannelClose)
            client.send(1, m.ChannelCloseOk(), m.ChannelOpen())
            client.expect(1, m.ChannelOpenOk)
        assert resident_bytes(server.pid) - before < GROWTH_BYTES_MAX


def test_asking_for_much_without_reading_it_costs_nothing(server: ServerProcess) -> None:
    count = 1_000
    with connect(server) as client, connect(server) as other:
        client.call(1, m.QueueDeclare("q"))
        client.publish(1, m.BasicPublish("", "q"), None, bytes(BODY_BYTES))
        before = resident_bytes(server.pid)
        client.raw(*(again(number) for number in range(1, count + 1)))
        other.call(1, m.QueueDeclare("other"))
        assert resident_bytes(server.pid) - before < GROWTH_BYTES_MAX
        for number in range(1, count + 1):
            assert client.expect(1, m.BasicGetOk).delivery_tag == number
            assert len(client.content(1).body) == BODY_BYTES
