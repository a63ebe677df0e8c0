"""Slow disks, slow readers and empty promises: memory has a bound, and whoever is too fast waits."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.amqp import methods as m
from leveret.amqp.frames import BODY, HEADER
from leveret.core.properties import Properties, encode_header
from leveret.embedded import storage
from leveret.journal.disk import Disk
from leveret.journal.options import JournalOptions
from tests.amqp.client import World
from tests.amqp.error_rows import MESSAGE_BYTES_MAX
from tests.amqp.targets import SocketTarget
from tests.amqp.wire import Client, content_frames, frame, method_frame
from tests.server_process import ServerProcess

MIB = 1 << 20
PATIENCE_S = 30
BODY_BYTES = 100_000
PERSISTENT = Properties(delivery_mode=2)


class HeldDisk(Disk):
    """A disk whose syncs take until somebody opens the gate."""

    gate = threading.Event()

    def datasync(self, fd: int) -> None:
        assert self.gate.wait(PATIENCE_S)
        super().datasync(fd)


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world on a disk that is held."""
    monkeypatch.setattr(storage, "Disk", HeldDisk)
    monkeypatch.setattr(HeldDisk, "gate", threading.Event())
    HeldDisk.gate.set()
    world = World(path=str(tmp_path))
    yield world
    HeldDisk.gate.set()
    world.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path) as process:
        yield process


def connect(server: ServerProcess, channels: tuple[int, ...] = (1,)) -> Client:
    return SocketTarget("127.0.0.1", server.port).connect().open(channels=channels)


def publish_frames(body: bytes) -> bytes:
    return method_frame(1, m.BasicPublish("", "q")) + b"".join(content_frames(1, PERSISTENT, body))


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def confirmed(client: Client, count: int) -> None:
    """Wait until so many publishes are confirmed."""
    while client.expect(1, m.BasicAck).delivery_tag < count:
        pass


def test_a_publisher_waits_for_a_disk_that_is_behind(held: World) -> None:
    client = held.client()
    client.queue(durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    HeldDisk.gate.clear()
    sent = 0
    while client.connection.wants_input:
        held.hub.receive(client.connection, publish_frames(bytes(BODY_BYTES)))
        sent += 1
        assert sent * BODY_BYTES < 2 * JournalOptions().unwritten_bytes_max, "nothing stops it"
    assert client.nothing()
    HeldDisk.gate.set()
    held.work()
    assert client.connection.wants_input
    assert max(each.method.delivery_tag for each in client.received()) == sent


def test_consumers_get_their_messages_while_the_disk_is_behind(held: World) -> None:
    publisher, consumer = held.client(), held.client()
    consumer.queue(durable=True)
    consumer.call(m.BasicConsume("q", no_ack=True), m.BasicConsumeOk)
    HeldDisk.gate.clear()
    held.hub.receive(publisher.connection, publish_frames(b"body"))
    assert consumer.next_content(m.BasicDeliver).body == b"body"


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
        assert pushed * BODY_BYTES < 16 * MIB
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
        assert resident_bytes(server.pid) - before < 16 * MIB


def test_a_flood_of_errors_is_answered_within_bounds(server: ServerProcess) -> None:
    with connect(server) as client:
        before = resident_bytes(server.pid)
        for _ in range(1_000):
            client.send(1, m.QueueDeclare("missing", passive=True))
            client.expect(1, m.ChannelClose)
            client.send(1, m.ChannelCloseOk(), m.ChannelOpen())
            client.expect(1, m.ChannelOpenOk)
        assert resident_bytes(server.pid) - before < 16 * MIB


def test_who_asks_for_much_and_reads_nothing_is_not_heard_for_a_while(world: World) -> None:
    client = world.client()
    client.queue()
    client.publish(body=bytes(BODY_BYTES))
    client.connection.writable(False)
    count = 100
    client.send_bytes(b"".join(again(number) for number in range(1, count + 1)))
    assert client.connection.outlet.pending_bytes < 2 * MIB
    assert not client.connection.wants_input
    client.connection.writable(True)
    got = 0
    while got < count:
        world.hub.flush()
        got += len(client.received())
    assert client.connection.wants_input


def again(number: int) -> bytes:
    """Take a message and give it back."""
    return method_frame(1, m.BasicGet("q")) + method_frame(1, m.BasicNack(number, requeue=True))


def test_asking_for_much_without_reading_it_costs_nothing(server: ServerProcess) -> None:
    count = 1_000
    with connect(server) as client, connect(server) as other:
        client.call(1, m.QueueDeclare("q"))
        client.publish(1, m.BasicPublish("", "q"), None, bytes(BODY_BYTES))
        before = resident_bytes(server.pid)
        client.raw(*(again(number) for number in range(1, count + 1)))
        other.call(1, m.QueueDeclare("other"))
        assert resident_bytes(server.pid) - before < 16 * MIB
        for number in range(1, count + 1):
            assert client.expect(1, m.BasicGetOk).delivery_tag == number
            assert len(client.content(1).body) == BODY_BYTES
