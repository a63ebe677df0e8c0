"""Who alone consumes a queue does so also when its shard has another owner, whoever comes there first."""

from functools import partial
from typing import Any

import pytest

from leveret.cluster.proxy.orphaned_deliveries import GRACE_MS
from leveret.core.broker import Broker
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ChannelClose,
)
from tests.cluster.takeover_world import NAME, TakeoverWorld, client_of, consume, cut_off, publish, taken
from tests.protocols.amqp.client import Client


@pytest.fixture
def client(takeover: TakeoverWorld) -> Client:
    return client_of(takeover)


def test_the_single_active_consumer_stays_the_one_that_holds_messages(takeover: TakeoverWorld) -> None:
    client = client_of(takeover, **{"x-single-active-consumer": True})
    publish(client, b"one", b"two")
    consume(client, prefetch=1)
    tags = taken(client)
    waiting = takeover.client()
    takeover.lose()
    consume(waiting, prefetch=1, tag="w")
    assert waiting.nothing()
    takeover.reattach()
    client.send(BasicAck(tags[b"one"]))
    assert client.next_content(BasicDeliver).body == b"two"
    assert waiting.nothing()


def test_a_queue_with_a_single_active_consumer_goes_on_when_nobody_claims(takeover: TakeoverWorld) -> None:
    client = client_of(takeover, **{"x-single-active-consumer": True})
    publish(client, b"one", b"two")
    consume(client, prefetch=1)
    taken(client)
    takeover.lose()
    takeover.hub.lost(client.connection)
    takeover.work()
    other = client_of(takeover, **{"x-single-active-consumer": True})
    consume(other)
    assert other.nothing()
    takeover.pass_ms(GRACE_MS)
    assert list(taken(other)) == [b"one", b"two"]


def test_the_next_active_consumer_waits_for_one_that_cannot_be_reached(takeover: TakeoverWorld) -> None:
    client = client_of(takeover, **{"x-single-active-consumer": True})
    publish(client, b"one", b"two", b"three")
    consume(client, prefetch=2)
    taken(client)
    other = takeover.client()
    consume(other, tag="o")
    cut_off(takeover, client)
    assert other.nothing()
    takeover.pass_ms(GRACE_MS)
    assert list(taken(other)) == [b"one", b"two", b"three"]


SINGLE_ACTIVE = {"x-single-active-consumer": True}


@pytest.mark.parametrize("paused", [True, False])
def test_what_is_decided_while_a_consumer_is_waited_for_holds_afterwards(takeover: TakeoverWorld, paused: bool) -> None:
    client = client_of(takeover, **SINGLE_ACTIVE)
    publish(client, b"one", b"two")
    consume(client, prefetch=1)
    taken(client)
    other = takeover.client()
    consume(other, prefetch=2, tag="o")
    cut_off(takeover, client)
    queue = takeover.replica.broker.topology.vhost("/").queues[NAME]
    for is_paused in (not paused, paused):
        takeover.decide(partial(Broker.pause_queue, queue=queue, paused=is_paused))
    assert other.nothing()
    takeover.pass_ms(GRACE_MS)
    assert list(taken(other)) == ([] if paused else [b"one", b"two"])


def refused(client: Client, tag: str = "o", **options: Any) -> bool:
    """Whether a client may not consume."""
    client.send(BasicConsume(NAME, tag, **options))
    came = client.received()[0].method
    return isinstance(came, ChannelClose) and came.reply_code == 403


def test_an_exclusive_consumer_is_waited_for(takeover: TakeoverWorld, client: Client) -> None:
    consume(client, exclusive=True)
    takeover.lose()
    assert refused(takeover.client())
    assert refused(takeover.client(), exclusive=True)
    takeover.reattach()
    assert refused(takeover.client())
    publish(client, b"one")
    assert list(taken(client)) == [b"one"]


@pytest.mark.parametrize("arguments", [{}, SINGLE_ACTIVE], ids=["exclusive", "single active"])
def test_who_is_told_that_it_alone_consumes_is_not_forgotten(
    takeover: TakeoverWorld, arguments: dict[str, Any]
) -> None:
    client = client_of(takeover, **arguments)
    publish(client, b"one")
    takeover.freeze()
    client.send(BasicConsume(NAME, "c", exclusive=not arguments))
    assert client.nothing()
    takeover.thaw()
    client.next(BasicConsumeOk)
    assert list(taken(client)) == [b"one"]


def test_an_exclusive_consumer_that_was_told_nothing_yet_has_nothing(takeover: TakeoverWorld, client: Client) -> None:
    takeover.freeze()
    client.send(BasicConsume(NAME, "c", exclusive=True))
    takeover.lose()
    consume(takeover.client(), tag="o", exclusive=True)
    takeover.reattach()
    assert client.next(ChannelClose).reply_code == 403


def test_an_exclusive_consumer_that_does_not_come_back_is_not_waited_for_any_more(
    takeover: TakeoverWorld, client: Client
) -> None:
    consume(client, exclusive=True)
    takeover.lose()
    takeover.hub.lost(client.connection)
    takeover.work()
    assert refused(takeover.client())
    takeover.pass_ms(GRACE_MS)
    other = takeover.client()
    consume(other, tag="o", exclusive=True)
    takeover.lose()
    assert refused(takeover.client(), "p")
    takeover.reattach()
    publish(other, b"one")
    assert list(taken(other)) == [b"one"]


@pytest.mark.parametrize("cancel", [True, False])
def test_nobody_waits_for_an_exclusive_consumer_that_has_gone(
    takeover: TakeoverWorld, client: Client, cancel: bool
) -> None:
    consume(client, exclusive=True)
    if cancel:
        client.call(BasicCancel("c"), BasicCancelOk)
    else:
        takeover.hub.lost(client.connection)
        takeover.work()
    takeover.lose()
    consume(takeover.client(), tag="o", exclusive=True)


def test_a_consumer_of_a_node_that_has_gone_is_not_waited_for(takeover: TakeoverWorld, client: Client) -> None:
    consume(client, exclusive=True)
    takeover.present.clear()
    takeover.lose()
    consume(takeover.client(), tag="o", exclusive=True)


def test_an_exclusive_consumer_that_cannot_be_reached_for_a_moment_keeps_its_place(
    takeover: TakeoverWorld, client: Client
) -> None:
    consume(client, exclusive=True)
    cut_off(takeover, client)
    assert refused(takeover.client())
    takeover.reattach()
    publish(client, b"one")
    assert list(taken(client)) == [b"one"]


@pytest.mark.parametrize("lost", [TakeoverWorld.lose, "cut off"])
def test_the_active_consumer_stays_active_though_it_holds_nothing(takeover: TakeoverWorld, lost: Any) -> None:
    client = client_of(takeover, **SINGLE_ACTIVE)
    consume(client)
    if lost == "cut off":
        cut_off(takeover, client)
    else:
        lost(takeover)
    waiting = takeover.client()
    consume(waiting, tag="w")
    publish(waiting, b"one")
    assert waiting.nothing()
    takeover.reattach()
    assert (list(taken(client)), waiting.nothing()) == ([b"one"], True)
    client.call(BasicCancel("c"), BasicCancelOk)
    publish(client, b"two")
    assert list(taken(waiting)) == [b"two"]
    takeover.lose()
    latest = takeover.client()
    consume(latest, tag="l")
    publish(latest, b"three")
    assert latest.nothing()
    takeover.reattach()
    assert list(taken(waiting)) == [b"three"]


def test_a_queue_goes_on_when_its_active_consumer_does_not_come_back(takeover: TakeoverWorld) -> None:
    client = client_of(takeover, **SINGLE_ACTIVE)
    consume(client)
    takeover.lose()
    takeover.hub.lost(client.connection)
    takeover.work()
    waiting = takeover.client()
    consume(waiting, tag="w")
    publish(waiting, b"one")
    assert waiting.nothing()
    takeover.pass_ms(GRACE_MS)
    assert list(taken(waiting)) == [b"one"]


def test_an_exclusive_consumer_goes_on_alone(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client, exclusive=True)
    tags = taken(client)
    takeover.take_over()
    other = client_of(takeover)
    other.send(BasicConsume(NAME))
    assert other.next(ChannelClose).reply_code == 403
    client.send(BasicAck(tags[b"one"]))
    assert takeover.leased == 0
