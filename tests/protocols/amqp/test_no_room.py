"""No room on the disk, and a disk that does not answer: publishers wait, nobody is closed, nothing grows for ever."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.core.properties import Properties, content
from leveret.protocols.amqp.hub import WAITING_MAX
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.storage.journal.journal import FileJournal
from leveret.wire.codec import encode
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.protocols.amqp.client import Client, World

LARGE = bytes(2_048)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A hub on files where a kilobyte is much."""
    made = World(AmqpLimits(blob_bytes=1_024), str(tmp_path), blob_bytes=1_024)
    yield made
    made.close()


@pytest.fixture
def client(world: World) -> Client:
    """A client with a queue that lasts, who gets confirms."""
    made = world.client()
    made.queue(durable=True)
    made.call(ConfirmSelect(), ConfirmSelectOk)
    return made


def set_full(world: World, full: bool) -> None:
    journal = world.core.journal
    assert isinstance(journal, FileJournal)
    journal.refuse_publishes(full)


def stored(tmp_path: Path) -> int:
    return sum(1 for each in (tmp_path / "blobs").rglob("*") if each.is_file())


@pytest.mark.parametrize("body", [b"", b"x", LARGE])
def test_a_publisher_is_blocked_before_anybody_looks_at_the_disk(world: World, client: Client, body: bytes) -> None:
    set_full(world, True)
    client.publish(body=body, delivery_mode=2)
    assert client.next(ConnectionBlocked) == ConnectionBlocked("low on disk")
    assert not client.connection.wants_input
    world.hub.sweep()
    assert client.nothing()
    set_full(world, False)
    world.hub.sweep()
    world.work()
    client.next(ConnectionUnblocked)
    assert client.next(BasicAck) == BasicAck(1)
    assert client.connection.wants_input


def test_the_alarm_that_follows_changes_nothing_and_ends_it(world: World, client: Client) -> None:
    set_full(world, True)
    client.publish(delivery_mode=2)
    world.hub.set_alarm("low on disk")
    set_full(world, False)
    world.hub.sweep()
    client.next(ConnectionBlocked)
    assert client.nothing()
    world.hub.set_alarm(None)
    world.work()
    client.next(ConnectionUnblocked)
    client.next(BasicAck)


@pytest.mark.parametrize("piece", [1, 2])
def test_a_message_that_has_begun_waits_too(world: World, client: Client, piece: int) -> None:
    client.writer.content(1, encode(BasicPublish("", "q")), *content(Properties(delivery_mode=2), b"x"))
    frames = client.writer.take().split(b"\xce")[:3]
    for i, frame in enumerate(frames):
        set_full(world, i >= piece)
        client.send_bytes(frame + b"\xce")
    client.next(ConnectionBlocked)
    set_full(world, False)
    world.hub.sweep()
    world.work()
    client.next(ConnectionUnblocked)
    client.next(BasicAck)


def test_a_transaction_that_publishes_waits_and_one_that_settles_does_not(world: World) -> None:
    client = world.client()
    client.queue(durable=True)
    client.publish(delivery_mode=2)
    client.call(TxSelect(), TxSelectOk)
    client.call(BasicConsume("q", "c"), BasicConsumeOk)
    client.next(BasicDeliver)
    client.send(BasicAck(1))
    set_full(world, True)
    client.call(TxCommit(), TxCommitOk)
    set_full(world, False)
    client.publish(delivery_mode=2)
    set_full(world, True)
    client.send(TxCommit())
    client.next(ConnectionBlocked)
    set_full(world, False)
    world.hub.sweep()
    world.work()
    client.next(ConnectionUnblocked)
    assert {type(each.method) for each in client.received()} == {TxCommitOk, BasicDeliver}


@pytest.fixture
def filling(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first large body that is put away takes the last room."""
    assert world.hub.bodies is not None
    put = world.hub.bodies.store.put

    def fill(data: bytes, now_ms: int) -> bytes:
        pointer = put(data, now_ms)
        set_full(world, True)
        return pointer

    monkeypatch.setattr(world.hub.bodies.store, "put", fill)


@pytest.mark.usefixtures("filling")
def test_a_body_that_was_stored_waits_for_room_for_its_message(world: World, client: Client, tmp_path: Path) -> None:
    client.publish(body=LARGE, delivery_mode=2)
    client.next(ConnectionBlocked)
    assert stored(tmp_path) == 1
    set_full(world, False)
    world.hub.sweep()
    world.work()
    client.next(ConnectionUnblocked)
    client.next(BasicAck)
    assert stored(tmp_path) == 1


@pytest.mark.usefixtures("filling")
def test_a_body_that_waits_goes_with_its_client(world: World, client: Client, tmp_path: Path) -> None:
    client.publish(body=LARGE, delivery_mode=2)
    world.hub.lost(client.connection)
    large = world.broker.runtime.large
    assert large is not None
    assert large.delete()
    assert stored(tmp_path) == 0


def test_who_publishes_while_the_disk_does_not_answer_is_not_heard_for_ever(world: World, client: Client) -> None:
    publish = publish_bytes(client, "q")
    lost = publish_bytes(client, "nowhere")
    world.hub.receive(client.connection, publish)
    for _ in range(WAITING_MAX - 2):
        world.hub.receive(client.connection, lost)
    assert client.connection.wants_input
    world.hub.receive(client.connection, lost)
    assert not client.connection.wants_input
    world.work()
    assert client.connection.wants_input
    acks = [each.method for each in client.received()]
    assert acks[-1].delivery_tag == WAITING_MAX


def publish_bytes(client: Client, key: str) -> bytes:
    client.writer.content(1, encode(BasicPublish("", key)), *content(Properties(delivery_mode=2), b"x"))
    return client.writer.take()
