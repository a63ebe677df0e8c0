"""Slow disks, slow readers and empty promises: memory has a bound, and whoever is too fast waits."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.core.properties import Properties
from leveret.protocols.amqp.connection import AmqpConnection
from leveret.runtime import storage
from leveret.storage.disk import Disk
from leveret.storage.options import JournalOptions
from leveret.wire import methods as m
from tests.protocols.amqp.client import World
from tests.protocols.amqp.wire import content_frames, method_frame
from tests.waiting import PATIENCE_S

MIB = 1 << 20
HEARTBEAT = b"\x08" + bytes(6) + b"\xce"
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


def publish_frames(body: bytes) -> bytes:
    return method_frame(1, m.BasicPublish("", "q")) + b"".join(content_frames(1, PERSISTENT, body))


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


class Reader:
    """A socket whose other end reads at once whatever is written."""

    def __init__(self, connection: AmqpConnection, broken: bool = False) -> None:
        self.broken = broken
        self.aborted = False
        self.writes: list[int] = []
        self._connection = connection
        connection.socket = self

    def flush(self) -> None:
        if self.broken:
            raise RuntimeError("the handler is closed")
        self.writes.append(len(self._connection.take_output()))

    def abort(self) -> None:
        self.aborted = True


def test_who_reads_as_fast_as_we_write_does_not_keep_the_loop(world: World) -> None:
    client = world.client()
    client.queue()
    for _ in range(20):
        client.publish(body=bytes(BODY_BYTES))
    world.hub.flush()
    reader = Reader(client.connection)
    client.send(m.BasicConsume("q", no_ack=True))
    world.hub.flush()
    assert len(reader.writes) == 1
    while world.hub.outbox.waiting:
        world.hub.flush()
        assert len(reader.writes) < 20
    assert world.core.topology.vhost("/").queue("q").depth == 0


def test_a_socket_that_cannot_be_written_to_keeps_nobody_else_from_it(world: World) -> None:
    readers = [Reader(world.client().connection, broken) for broken in (True, False)]
    for connection in world.hub.connections:
        connection.outlet.heartbeat()
        connection.outlet.note()
    world.hub.flush()
    assert [each.aborted for each in readers] == [True, False]
    assert readers[1].writes


def test_heartbeats_do_not_pile_up_for_who_does_not_read(world: World) -> None:
    client = world.client(heartbeat=10)
    client.connection.writable(False)
    for _ in range(10):
        client.send_bytes(HEARTBEAT)
        world.pass_ms(5_000)
    client.connection.writable(True)
    client.received()
    assert client.heartbeats == 1
