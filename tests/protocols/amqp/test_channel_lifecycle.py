"""Channels come and go: open, close both ways, and what is out of order."""

import pytest

from leveret.security.passwords import hash_password
from leveret.wire.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    TxCommit,
)
from tests.protocols.amqp.client import CHEAP, Client, World


def test_a_channel_opens_once(client: Client) -> None:
    client.send(ChannelOpen())
    assert client.next(ConnectionClose) == ConnectionClose(504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)


def test_a_method_before_open_is_504(client: Client) -> None:
    client.send(BasicQos(), 2)
    assert client.next(ConnectionClose) == ConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'", 60, 10)


def test_the_number_of_a_closed_channel_is_free(client: Client) -> None:
    client.queue()
    for _ in range(2):
        client.call(ChannelClose(200, "done"), ChannelCloseOk)
        client.call(ChannelOpen(), ChannelOpenOk)
        client.publish()
        client.call(BasicQos(0, 1, False), BasicQosOk)


def test_a_closed_channel_is_not_open(client: Client) -> None:
    client.call(ChannelClose(200, "done"), ChannelCloseOk)
    client.send(BasicQos())
    assert client.next(ConnectionClose).reply_code == 504


def test_closing_a_channel_gives_its_messages_back(client: Client) -> None:
    client.queue()
    client.publish()
    client.open_channel(2)
    client.send(BasicGet("q"), 2)
    client.next(BasicGetOk)
    client.call(ChannelClose(200, "done"), ChannelCloseOk, 2)
    client.send(BasicGet("q"))
    assert client.next(BasicGetOk).redelivered


def test_after_an_error_nothing_is_heard_until_close_ok(client: Client) -> None:
    client.queue()
    client.open_channel(2)
    client.send(QueueDeclare("missing", passive=True))
    text = "NOT_FOUND - no queue 'missing' in vhost '/'"
    assert client.next(ChannelClose, 1) == ChannelClose(404, text, 50, 10)
    client.send(QueueDeclare("ignored"))
    client.publish()
    client.send(ChannelOpen())
    assert client.nothing()
    assert client.call(QueueDeclare("q", passive=True), QueueDeclareOk, 2) == QueueDeclareOk("q", 0, 0)
    client.send(ChannelCloseOk())
    client.call(ChannelOpen(), ChannelOpenOk)
    client.send(QueueDeclare("ignored", passive=True))
    assert client.next(ChannelClose).reply_code == 404


def test_crossing_closes_are_both_answered(client: Client) -> None:
    client.send(QueueDeclare("missing", passive=True))
    client.next(ChannelClose)
    client.call(ChannelClose(200, "done"), ChannelCloseOk)
    client.send(ChannelCloseOk())
    client.call(ChannelOpen(), ChannelOpenOk)


def test_a_failed_publish_closes_only_its_channel(client: Client) -> None:
    client.queue()
    client.open_channel(2)
    client.publish(exchange="missing")
    text = "NOT_FOUND - no exchange 'missing' in vhost '/'"
    assert client.next(ChannelClose, 1) == ChannelClose(404, text, 60, 40)
    client.publish(channel=2)
    client.send(BasicGet("q"), 2)
    client.next(BasicGetOk)


def test_flow_cannot_be_stopped(client: Client) -> None:
    assert client.call(ChannelFlow(True), ChannelFlowOk) == ChannelFlowOk(True)
    client.send(ChannelFlow(False))
    assert client.next(ConnectionClose) == ConnectionClose(540, "NOT_IMPLEMENTED - active=false", 20, 20)


@pytest.mark.parametrize(
    ("method", "code", "text", "ids"),
    [
        (BasicQos(1, 0, False), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)", (60, 10)),
        (BasicRecover(False), 540, "NOT_IMPLEMENTED - requeue=false", (60, 110)),
        (ConnectionClose(200, "x"), 503, "COMMAND_INVALID - unimplemented method", (10, 50)),
        (BasicDeliver("c", 1), 503, "COMMAND_INVALID - unimplemented method", (60, 60)),
        (ChannelCloseOk(), 503, "COMMAND_INVALID - channel.close-ok without a channel.close", (20, 41)),
    ],
)
def test_some_methods_end_the_connection(
    client: Client, method: Method, code: int, text: str, ids: tuple[int, int]
) -> None:
    client.send(method)
    assert client.next(ConnectionClose) == ConnectionClose(code, text, *ids)


@pytest.mark.parametrize(
    ("method", "text", "ids"),
    [
        (BasicAck(7), "unknown delivery tag 7", (60, 80)),
        (BasicAck(0), "unknown delivery tag 0", (60, 80)),
        (TxCommit(), "channel is not transactional", (90, 20)),
        (BasicConsume("amq.rabbitmq.reply-to"), "reply consumer cannot acknowledge", (60, 20)),
    ],
)
def test_some_methods_end_the_channel_with_406(client: Client, method: Method, text: str, ids: tuple[int, int]) -> None:
    client.send(method)
    assert client.next(ChannelClose) == ChannelClose(406, f"PRECONDITION_FAILED - {text}", *ids)


def test_a_consumer_tag_is_used_once(client: Client) -> None:
    client.queue()
    client.call(BasicConsume("q", "c"), BasicConsumeOk)
    client.send(BasicConsume("q", "c"))
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'c'"
    assert client.next(ConnectionClose) == ConnectionClose(530, text, 60, 20)


def test_the_server_makes_up_consumer_tags(client: Client) -> None:
    client.queue()
    assert client.call(BasicConsume("q"), BasicConsumeOk).consumer_tag.startswith("amq.ctag-")


def test_an_exclusive_consumer_is_alone(client: Client) -> None:
    client.queue()
    client.call(BasicConsume("q", "c"), BasicConsumeOk)
    client.send(BasicConsume("q", "d", exclusive=True))
    text = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    assert client.next(ChannelClose) == ChannelClose(403, text, 60, 20)


def test_a_consumer_priority_is_a_number(client: Client) -> None:
    client.queue()
    client.send(BasicConsume("q", arguments={"x-priority": "high"}))
    close = client.next(ChannelClose)
    assert close.reply_code == 406
    assert "invalid arg 'x-priority' for queue 'q' in vhost '/'" in close.reply_text


def test_content_out_of_order_is_505(client: Client) -> None:
    client.send(BasicPublish("", "q"))
    client.send(QueueDelete("q"))
    close = client.next(ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (505, 60, 40)


def test_the_channels_of_a_user_are_counted(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
        world.access.set_permission("ann", "/", "", "", "")
        world.access.set_user_limits("ann", {"max-channels": 1})
    client = world.client(user="ann", password="secret")
    client.send(ChannelOpen(), 2)
    text = "NOT_ALLOWED - number of channels opened for user 'ann' has reached the maximum allowed user limit of (1)"
    assert client.next(ConnectionClose) == ConnectionClose(530, text, 20, 10)


def test_consumers_of_a_channel_are_counted(world: World) -> None:
    client = world.client()
    client.queue()
    most = world.hub.limits.consumers_per_channel_max
    for i in range(most):
        client.send(BasicConsume("q", str(i), nowait=True))
    assert client.nothing()
    client.send(BasicConsume("q", "one too many"))
    assert client.next(ChannelClose).reply_code == 406


def test_old_clients_get_their_ticket(client: Client) -> None:
    assert client.call(AccessRequest("/data"), AccessRequestOk) == AccessRequestOk(1)
