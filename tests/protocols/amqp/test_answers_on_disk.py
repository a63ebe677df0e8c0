"""Answers that say that something lasts come when it does; others do not wait."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.wire.codec import encode
from leveret.wire.methods import (
    BasicAck,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from tests.protocols.amqp.client import Client, World
from tests.waiting import PATIENCE_S


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A hub on files."""
    made = World(path=str(tmp_path))
    yield made
    made.close()


def send_only(client: Client, *methods: Method) -> None:
    """Send methods in one piece, and do not wait for the disk."""
    for method in methods:
        client.writer.method(1, encode(method))
    client.world.hub.receive(client.connection, client.writer.take())


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (QueueDeclare("new", durable=True), QueueDeclareOk),
        (ExchangeDeclare("new", "direct", durable=True), ExchangeDeclareOk),
        (QueueBind("q", "amq.direct", "k"), QueueBindOk),
        (QueueDelete("q"), QueueDeleteOk),
    ],
)
def test_what_lasts_is_answered_when_it_is_on_disk(
    world: World, client: Client, method: Method, answer: type[Method]
) -> None:
    client.queue(durable=True)
    send_only(client, method)
    assert client.nothing()
    assert not client.connection.wants_input
    world.work()
    client.next(answer)
    assert client.connection.wants_input


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (QueueDeclare("new"), QueueDeclareOk),
        (QueueDeclare("q", passive=True), QueueDeclareOk),
        (ExchangeDeclare("new", "direct"), ExchangeDeclareOk),
        (QueueBind("q", "amq.direct", "k"), QueueBindOk),
        (QueueDelete("q"), QueueDeleteOk),
    ],
)
def test_what_does_not_last_is_answered_at_once(
    world: World, client: Client, method: Method, answer: type[Method]
) -> None:
    client.queue()
    send_only(client, method)
    client.next(answer)


def test_what_follows_an_answer_waits_with_it(world: World, client: Client) -> None:
    client.call(ConfirmSelect(), ConfirmSelectOk)
    send_only(client, QueueDeclare("a", durable=True), QueueDeclare("b"), QueueDeclare("c", durable=True))
    assert client.nothing()
    client.publish("a", delivery_mode=2)
    came = [each.method for each in client.received()]
    assert [each.queue for each in came[:3]] == ["a", "b", "c"]
    assert came[3:] == [BasicAck(1, False)]


def test_a_channel_closed_meanwhile_gets_no_answer(world: World, client: Client) -> None:
    send_only(client, QueueDeclare("a", durable=True))
    world.hub.lost(client.connection)
    world.work()
    assert client.nothing()
    assert "a" in world.core.topology.vhost("/").queues


def test_a_frame_that_is_on_the_disk_when_the_broker_is_closed_concerns_nobody(world: World) -> None:
    client = world.client()
    send_only(client, QueueDeclare("new", durable=True))
    world.hub.lost(client.connection)
    world.broker.close()
    world.hub.durable(world.frames.get(timeout=PATIENCE_S))
    assert not world.hub.connections
