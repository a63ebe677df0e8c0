"""A message that cannot be read, or given back, is one message: nobody else suffers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.core.errors import StoreUnreachable
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    TxSelect,
    TxSelectOk,
)
from tests.protocols.amqp.client import Client, World

POISON = b"poison" * 10
TTL_MS = 5_000
DEAD_LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A hub on files, with next to no cache."""
    made = World(AmqpLimits(blob_bytes=1_024), str(tmp_path), cache_bytes=1, blob_bytes=1_024)
    yield made
    made.close()


def damage(world: World, folder: Path) -> None:
    """Change a bit of the message on the disk."""
    world.broker.flush()
    for segment in folder.glob("**/seg-*.log"):
        data = segment.read_bytes()
        segment.write_bytes(data.replace(POISON, b"q" + POISON[1:]))


def depth(world: World, name: str) -> int:
    return int(world.core.topology.vhost("/").queue(name).depth)


@pytest.fixture
def poisoned(world: World, client: Client, tmp_path: Path) -> Client:
    """A client that confirms; beside it, a damaged message expires, and a good one after it."""
    client.queue("dead", durable=True)
    client.queue("q", durable=True, arguments={"x-message-ttl": TTL_MS, **DEAD_LETTERS})
    client.publish(body=POISON, delivery_mode=2)
    client.publish(body=b"good", delivery_mode=2)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    damage(world, tmp_path)
    return client


def test_what_comes_when_a_damaged_message_is_due_is_heard(world: World, poisoned: Client) -> None:
    world.clock.advance(TTL_MS / 1000 + 1)
    poisoned.queue("other", durable=True)
    poisoned.publish("other", delivery_mode=2)
    assert poisoned.next(BasicAck) == BasicAck(1, False)
    assert depth(world, "other") == 1


def test_what_expires_after_a_damaged_message_is_dead_lettered(world: World, poisoned: Client) -> None:
    world.pass_ms(TTL_MS + 1_000)
    world.pass_ms(1)
    poisoned.send(BasicGet("dead"))
    assert poisoned.next_content(BasicGetOk).body == b"good"


def test_a_queue_that_cannot_be_read_is_logged_once_a_second(
    world: World, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client.queue(durable=True)
    client.publish(body=POISON, delivery_mode=2)
    damage(world, tmp_path)
    for turn in range(5):
        client.send(BasicConsume("q", f"c{turn}"))
    assert caplog.text.count("a queue could not be read") == 1


def test_a_store_that_is_away_is_no_fault_of_ours(
    world: World, client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.queue(durable=True)
    client.publish(delivery_mode=2)

    def away(*arguments: object) -> None:
        raise StoreUnreachable("try again later")

    monkeypatch.setattr(world.broker.runtime._dispatcher, "dispatch", away)
    client.send(BasicConsume("q", "c"))
    assert [record.levelname for record in caplog.records if "waits for the store" in record.message] == ["WARNING"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_who_is_lost_leaves_nothing_although_something_fails(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.queue(durable=True)
    client.queue("mine", exclusive=True)
    client.publish()
    client.open_channel(2)
    client.call(BasicConsume("mine", "c"), BasicConsumeOk, channel=2)
    client.call(BasicGet("q"), BasicGetOk)
    client.call(TxSelect(), TxSelectOk)
    client.publish(body=bytes(2_048))
    monkeypatch.setattr(world.broker.runtime.large, "drop_unused", None)
    world.hub.lost(client.connection)
    assert depth(world, "q") == 1
    assert "mine" not in world.core.topology.vhost("/").queues
    assert not world.hub.connections


def test_a_message_that_cannot_be_read_does_not_hold_up_its_queue(world: World, client: Client, tmp_path: Path) -> None:
    client.queue(durable=True)
    client.publish(body=POISON, delivery_mode=2)
    damage(world, tmp_path)
    client.publish(body=b"good", delivery_mode=2)
    client.call(BasicConsume("q", "c"), BasicConsumeOk)
    for _ in range(5):
        client.publish(body=b"more")
    assert [each.body for each in client.received()] == [b"good", *[b"more"] * 5]
    queue = world.core.topology.vhost("/").queue("q")
    assert (queue.backing_off, queue.counts["redelivered"]) == (1, 0)
    world.pass_ms(1_000)
    assert queue.counts["redelivered"] == 1


def test_a_message_that_cannot_be_dead_lettered_waits_again(world: World, client: Client, tmp_path: Path) -> None:
    client.queue("dead", durable=True)
    client.queue(durable=True, arguments=DEAD_LETTERS)
    client.publish(body=POISON, delivery_mode=2)
    tag = client.call(BasicGet("q"), BasicGetOk).delivery_tag
    damage(world, tmp_path)
    client.send(BasicReject(tag, requeue=False))
    client.next(ConnectionClose)
    queue = world.core.topology.vhost("/").queue("q")
    assert (queue.depth, queue.leased) == (1, 0)


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_who_publishes_to_a_full_queue_does_not_suffer_from_its_damage(
    world: World, client: Client, tmp_path: Path, overflow: str
) -> None:
    client.queue(durable=True, arguments={"x-max-length": 1, "x-overflow": overflow})
    client.publish(body=POISON, delivery_mode=2)
    damage(world, tmp_path)
    consumer = world.client()
    consumer.call(BasicConsume("q", "c"), BasicConsumeOk)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    world.clock.advance(1)
    client.publish(body=b"good", delivery_mode=2)
    assert client.next(BasicAck) == BasicAck(1, False)
    world.pass_ms(1)
    assert [each.body for each in consumer.received()] == [b"good"]
