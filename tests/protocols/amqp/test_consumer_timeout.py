"""A client that keeps a delivery for too long loses its channel, and the message goes back."""

import pytest

from leveret.core.policy import Policy
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.wire.replies import Reply
from tests.protocols.amqp.client import Client, World

HALF_HOUR_MS = 1_800_000


def text(timeout_ms: int, channel: int = 1) -> str:
    return (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel} timed out. "
        f"Timeout value used: {timeout_ms} ms. This timeout value can be configured, "
        "see consumers doc guide to learn more"
    )


def consume(client: Client, queue: str = "q", channel: int = 1, **arguments: int) -> None:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    client.call(BasicConsume(queue, "c", arguments=named), BasicConsumeOk, channel)


def holds_one(client: Client, channel: int = 1, body: bytes = b"x") -> None:
    client.publish(body=body, channel=channel)
    assert client.next_content(BasicDeliver, channel).body == body


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_channel_is_closed_and_the_message_goes_back(world: World, client: Client, kind: str) -> None:
    client.queue(durable=True, arguments={"x-queue-type": kind})
    consume(client)
    holds_one(client)
    world.pass_ms(HALF_HOUR_MS)
    assert client.nothing()
    world.pass_ms(1)
    assert client.next(ChannelClose, 1) == ChannelClose(Reply.PRECONDITION_FAILED, text(HALF_HOUR_MS), 0, 0)
    client.send(ChannelCloseOk())
    client.open_channel(1)
    assert client.call(BasicGet("q"), BasicGetOk).redelivered


def test_other_channels_stay_open(world: World, client: Client) -> None:
    client.queue()
    client.open_channel(2)
    consume(client, channel=2)
    holds_one(client, channel=2)
    world.pass_ms(HALF_HOUR_MS + 1)
    assert client.next(ChannelClose, 2).reply_text == text(HALF_HOUR_MS, channel=2)
    client.call(BasicGet("q"), BasicGetOk)


def test_what_was_settled_does_not_count(world: World, client: Client) -> None:
    client.queue()
    consume(client)
    holds_one(client)
    world.pass_ms(HALF_HOUR_MS - 1)
    holds_one(client)
    client.send(BasicAck(1))
    world.pass_ms(2)
    assert client.nothing()
    world.pass_ms(HALF_HOUR_MS)
    assert client.next(ChannelClose, 1).reply_text == text(HALF_HOUR_MS)


def test_what_was_got_counts_too(world: World, client: Client) -> None:
    client.queue(arguments={"x-consumer-timeout": 5_000})
    client.publish()
    client.call(BasicGet("q"), BasicGetOk)
    world.pass_ms(5_001)
    assert client.next(ChannelClose, 1).reply_text == text(5_000)


def test_a_queue_has_a_time_of_its_own_and_the_shorter_one_of_a_policy(world: World, client: Client) -> None:
    client.queue("argued", arguments={"x-consumer-timeout": 5_000})
    assert world.core.topology.vhost("/").queues["argued"].policy.consumer_timeout_ms == 5_000
    with world.hub.locked() as core:
        core.set_policy("/", Policy("short", ".*", definition={"consumer-timeout": 3_000}))
    client.queue()
    for name in ("q", "argued"):
        assert world.core.topology.vhost("/").queues[name].policy.consumer_timeout_ms == 3_000
    consume(client)
    holds_one(client)
    world.pass_ms(3_001)
    assert client.next(ChannelClose, 1).reply_text == text(3_000)


@pytest.mark.parametrize(("asked_ms", "used_ms"), [(2_000, 2_000), (9_000, 9_000)])
def test_a_consumer_has_the_last_word(world: World, client: Client, asked_ms: int, used_ms: int) -> None:
    client.queue(arguments={"x-consumer-timeout": 5_000})
    consume(client, x_consumer_timeout=asked_ms)
    holds_one(client)
    world.pass_ms(used_ms)
    assert client.nothing()
    world.pass_ms(1)
    assert client.next(ChannelClose, 1).reply_text == text(used_ms)


def test_without_a_limit_a_message_is_kept(world: World) -> None:
    unlimited = World(AmqpLimits(consumer_timeout_ms=0))
    client = unlimited.client()
    client.queue()
    consume(client)
    holds_one(client)
    unlimited.pass_ms(100 * HALF_HOUR_MS)
    assert client.nothing()
    unlimited.close()


def test_what_is_held_of_a_deleted_queue_does_not_count(world: World, client: Client) -> None:
    client.queue()
    consume(client)
    holds_one(client)
    client.open_channel(2)
    client.send(QueueDelete("q"), 2)
    assert client.received()[-1].method == QueueDeleteOk(0)
    world.pass_ms(HALF_HOUR_MS + 1)
    assert client.nothing()
    client.send(BasicAck(1))
    assert client.nothing()


def test_who_is_not_heard_has_more_time(world: World, client: Client) -> None:
    client.queue()
    consume(client)
    holds_one(client)
    world.hub.set_alarm("low on disk")
    client.publish()
    client.send(BasicAck(1))
    client.received()
    world.pass_ms(HALF_HOUR_MS + 1)
    assert client.nothing()
    world.hub.set_alarm(None)
    assert all(not isinstance(each.method, ChannelClose) for each in client.received())
