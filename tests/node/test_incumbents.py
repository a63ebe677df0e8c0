"""Who alone consumes a queue does so also when its shard has another owner, whoever comes there first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.amqp.methods import BasicAck, BasicCancel, BasicCancelOk, BasicConsume, BasicDeliver, ChannelClose
from leveret.node.unclaimed import GRACE_MS
from tests.amqp.client import Client
from tests.node.takeover_world import NAME, TakeoverWorld, client_of, consume, cut_off, publish, taken


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TakeoverWorld]:
    made = TakeoverWorld(tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(world: TakeoverWorld) -> Client:
    return client_of(world)


def test_the_single_active_consumer_stays_the_one_that_holds_messages(world: TakeoverWorld) -> None:
    client = client_of(world, **{"x-single-active-consumer": True})
    publish(client, b"one", b"two")
    consume(client, prefetch=1)
    tags = taken(client)
    waiting = world.client()
    world.lose()
    consume(waiting, prefetch=1, tag="w")
    assert waiting.nothing()
    world.reattach()
    client.send(BasicAck(tags[b"one"]))
    assert client.next_content(BasicDeliver).body == b"two"
    assert waiting.nothing()


def test_a_queue_with_a_single_active_consumer_goes_on_when_nobody_claims(world: TakeoverWorld) -> None:
    client = client_of(world, **{"x-single-active-consumer": True})
    publish(client, b"one", b"two")
    consume(client, prefetch=1)
    taken(client)
    world.lose()
    world.hub.lost(client.connection)
    world.work()
    other = client_of(world, **{"x-single-active-consumer": True})
    consume(other)
    assert other.nothing()
    world.pass_ms(GRACE_MS)
    assert list(taken(other)) == [b"one", b"two"]


def test_the_next_active_consumer_waits_for_one_that_cannot_be_reached(world: TakeoverWorld) -> None:
    client = client_of(world, **{"x-single-active-consumer": True})
    publish(client, b"one", b"two", b"three")
    consume(client, prefetch=2)
    taken(client)
    other = world.client()
    consume(other, tag="o")
    cut_off(world, client)
    assert other.nothing()
    world.pass_ms(GRACE_MS)
    assert list(taken(other)) == [b"one", b"two", b"three"]


SINGLE_ACTIVE = {"x-single-active-consumer": True}


def refused(client: Client, tag: str = "o", **options: Any) -> bool:
    """Whether a client may not consume."""
    client.send(BasicConsume(NAME, tag, **options))
    came = client.received()[0].method
    return isinstance(came, ChannelClose) and came.reply_code == 403


def test_an_exclusive_consumer_is_waited_for(world: TakeoverWorld, client: Client) -> None:
    consume(client, exclusive=True)
    world.lose()
    assert refused(world.client())
    assert refused(world.client(), exclusive=True)
    world.reattach()
    assert refused(world.client())
    publish(client, b"one")
    assert list(taken(client)) == [b"one"]


def test_an_exclusive_consumer_that_does_not_come_back_is_not_waited_for_any_more(
    world: TakeoverWorld, client: Client
) -> None:
    consume(client, exclusive=True)
    world.lose()
    world.hub.lost(client.connection)
    world.work()
    assert refused(world.client())
    world.pass_ms(GRACE_MS)
    other = world.client()
    consume(other, tag="o", exclusive=True)
    world.lose()
    assert refused(world.client(), "p")
    world.reattach()
    publish(other, b"one")
    assert list(taken(other)) == [b"one"]


@pytest.mark.parametrize("cancel", [True, False])
def test_nobody_waits_for_an_exclusive_consumer_that_has_gone(
    world: TakeoverWorld, client: Client, cancel: bool
) -> None:
    consume(client, exclusive=True)
    if cancel:
        client.call(BasicCancel("c"), BasicCancelOk)
    else:
        world.hub.lost(client.connection)
        world.work()
    world.lose()
    consume(world.client(), tag="o", exclusive=True)


def test_a_consumer_of_a_node_that_has_gone_is_not_waited_for(world: TakeoverWorld, client: Client) -> None:
    consume(client, exclusive=True)
    world.present.clear()
    world.lose()
    consume(world.client(), tag="o", exclusive=True)


def test_an_exclusive_consumer_that_cannot_be_reached_for_a_moment_keeps_its_place(
    world: TakeoverWorld, client: Client
) -> None:
    consume(client, exclusive=True)
    cut_off(world, client)
    assert refused(world.client())
    world.reattach()
    publish(client, b"one")
    assert list(taken(client)) == [b"one"]


@pytest.mark.parametrize("lost", [TakeoverWorld.lose, "cut off"])
def test_the_active_consumer_stays_active_though_it_holds_nothing(world: TakeoverWorld, lost: Any) -> None:
    client = client_of(world, **SINGLE_ACTIVE)
    consume(client)
    if lost == "cut off":
        cut_off(world, client)
    else:
        lost(world)
    waiting = world.client()
    consume(waiting, tag="w")
    publish(waiting, b"one")
    assert waiting.nothing()
    world.reattach()
    assert (list(taken(client)), waiting.nothing()) == ([b"one"], True)
    client.call(BasicCancel("c"), BasicCancelOk)
    publish(client, b"two")
    assert list(taken(waiting)) == [b"two"]
    world.lose()
    latest = world.client()
    consume(latest, tag="l")
    publish(latest, b"three")
    assert latest.nothing()
    world.reattach()
    assert list(taken(waiting)) == [b"three"]


def test_a_queue_goes_on_when_its_active_consumer_does_not_come_back(world: TakeoverWorld) -> None:
    client = client_of(world, **SINGLE_ACTIVE)
    consume(client)
    world.lose()
    world.hub.lost(client.connection)
    world.work()
    waiting = world.client()
    consume(waiting, tag="w")
    publish(waiting, b"one")
    assert waiting.nothing()
    world.pass_ms(GRACE_MS)
    assert list(taken(waiting)) == [b"one"]


def test_an_exclusive_consumer_goes_on_alone(world: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client, exclusive=True)
    tags = taken(client)
    world.take_over()
    other = client_of(world)
    other.send(BasicConsume(NAME))
    assert other.next(ChannelClose).reply_code == 403
    client.send(BasicAck(tags[b"one"]))
    assert world.leased == 0
