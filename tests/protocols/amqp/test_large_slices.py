"""Bodies of many mebibytes do not hold up other connections: they are sent in slices, and not copied as a whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.core.properties import content
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.wire.codec import encode
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.protocols.amqp.client import Client, World

MIB = 1 << 20
BODY = bytes(range(256)) * 4_096 * 5 + b"end"
SLICE_BYTES_MAX = MIB + 200_000  # a slice ends with a whole frame
PIECES = (1, 7, 8, 4_096, 100_001, 131_072, 131_080)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A hub on files."""
    made = World(AmqpLimits(), str(tmp_path))
    yield made
    made.close()


@pytest.fixture
def loaded(world: World, client: Client) -> Client:
    """A consumer that is about to be sent a large message and a small one."""
    client.queue(durable=True)
    client.publish(body=BODY)
    client.publish(body=b"small")
    client.received()
    client.send(BasicConsume("q", "c"))
    assert client.connection.outlet.pending_bytes > len(BODY)
    return client


def slices(client: Client) -> Iterator[bytes]:
    """What a socket writes, turn by turn; the client reads it."""
    while client.connection.outlet.pending_bytes:
        yield client.connection.take_output()


def test_other_connections_are_answered_between_the_slices(world: World, loaded: Client) -> None:
    other = world.client()
    sizes = []
    received = bytearray()
    world.hub.outbox.take()
    for data in slices(loaded):
        sizes.append(len(data))
        received += data
        assert other.call(QueueDeclare("other"), QueueDeclareOk).queue == "other"
        turn = world.hub.outbox.take()  # those that write in the next turn of the loop
        assert loaded.connection in turn or not loaded.connection.outlet.pending_bytes
    assert max(sizes) <= SLICE_BYTES_MAX
    assert len(sizes) >= len(BODY) // SLICE_BYTES_MAX
    loaded.reader.feed(received)
    loaded.next(BasicConsumeOk)
    came = loaded.next_content(BasicDeliver)
    assert came.body == BODY
    world.hub.feed_consumers([loaded.connection])
    assert loaded.next_content(BasicDeliver).body == b"small"


def test_no_slice_is_made_while_the_socket_takes_no_more(loaded: Client) -> None:
    first = loaded.connection.take_output() + loaded.connection.take_output()
    left = loaded.connection.outlet.pending_bytes
    loaded.connection.writable(False)
    assert loaded.connection.take_output() == b""
    assert loaded.connection.outlet.pending_bytes == left
    loaded.connection.writable(True)
    loaded.reader.feed(first + b"".join(slices(loaded)))
    loaded.next(BasicConsumeOk)
    assert loaded.next_content(BasicDeliver).body == BODY


def test_what_is_being_sent_goes_out_before_close_ok(world: World, loaded: Client) -> None:
    first = loaded.connection.take_output() + loaded.connection.take_output()
    loaded.send(ConnectionClose(200, "bye"), 0)
    loaded.reader.feed(first + loaded.connection.take_output())
    loaded.next(BasicConsumeOk)
    assert loaded.next_content(BasicDeliver).body == BODY
    assert [type(each.method) for each in loaded.received()] == [ConnectionCloseOk]


def test_a_client_is_heard_while_it_does_not_read_a_large_body(world: World, loaded: Client) -> None:
    loaded.connection.take_output()
    loaded.connection.writable(False)
    loaded.publish("other-queue", body=BODY)
    assert loaded.connection.wants_input
    loaded.send(QueueDeclare("late"))
    assert "late" in world.core.topology.vhost("/").queues


def test_a_lost_connection_keeps_no_body(world: World, loaded: Client) -> None:
    loaded.connection.take_output()
    world.hub.lost(loaded.connection)
    assert loaded.connection.outlet.pending_bytes == 0
    assert world.core.topology.vhost("/").queue("q").depth == 2


def test_a_client_that_does_not_read_gets_no_second_large_message(world: World, client: Client) -> None:
    client.queue(durable=True)
    for _ in range(2):
        client.publish(body=BODY)
    client.received()
    for _ in range(2):
        client.writer.method(1, encode(BasicGet("q")))
    client.send_bytes(client.writer.take())
    assert not client.connection.wants_input
    received = b"".join(slices(client))
    world.hub.resume()
    world.work()
    received += b"".join(slices(client))
    client.reader.feed(received)
    for _ in range(2):
        assert client.next_content(BasicGetOk).body == BODY


@pytest.mark.parametrize("size", PIECES)
def test_a_body_that_comes_in_pieces_is_stored_as_it_came(
    world: World, client: Client, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = BODY[: 40 * size + 300_000]
    client.queue(durable=True)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    assert world.hub.bodies is not None
    put = world.hub.bodies.store.put
    given: list[object] = []

    def note(data: bytes | memoryview, now_ms: int) -> bytes:
        given.append(type(data))
        return put(data, now_ms)

    monkeypatch.setattr(world.hub.bodies.store, "put", note)
    client.writer.content(1, encode(BasicPublish("", "q")), *content(None, body))
    wire = client.writer.take()
    step = max(size, len(wire) // 500)
    for start in range(0, len(wire), step):
        client.send_bytes(wire[start : start + step])
    assert client.next(BasicAck) == BasicAck(1, False)
    assert given == [memoryview]  # a slice would be a copy, made while Python is locked
    client.send(BasicGet("q"))
    assert client.next_content(BasicGetOk).body == body


def test_an_unfinished_large_body_goes_with_its_channel(world: World, client: Client) -> None:
    client.queue(durable=True)
    client.writer.content(1, encode(BasicPublish("", "q")), *content(None, BODY))
    wire = client.writer.take()
    client.send_bytes(wire[: 3 * MIB])
    world.hub.lost(client.connection)
    assert world.core.topology.vhost("/").queue("q").depth == 0
