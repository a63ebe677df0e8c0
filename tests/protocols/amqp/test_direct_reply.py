"""Direct reply-to: requests with a word instead of a queue, replies straight to the channel."""

import pytest

from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.protocols.amqp.client import Client, World

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def asking(client: Client) -> Client:
    """A client that waits for replies."""
    client.queue("rpc")
    client.call(BasicConsume(REPLY_TO, "replies", no_ack=True), BasicConsumeOk)
    return client


def asked(client: Client, server: Client) -> str:
    """Where the server is told to reply to."""
    client.publish("rpc", b"question", reply_to=REPLY_TO, correlation_id="1")
    server.send(BasicGet("rpc", no_ack=True))
    properties = server.next_content(BasicGetOk).properties
    assert properties is not None
    assert properties.correlation_id == "1"
    return str(properties.reply_to)


def test_a_reply_reaches_the_channel_that_asked(world: World, asking: Client) -> None:
    server = world.client()
    name = asked(asking, server)
    assert name.startswith(f"{REPLY_TO}.")
    server.publish(name, b"answer", correlation_id="1", mandatory=True)
    came = asking.next_content(BasicDeliver)
    assert came.method == BasicDeliver("replies", 1, False, "", name)
    assert came.body == b"answer"
    assert server.nothing()


def test_a_reply_is_confirmed(world: World, asking: Client) -> None:
    server = world.client()
    name = asked(asking, server)
    server.call(ConfirmSelect(), ConfirmSelectOk)
    server.publish(name)
    assert server.next(BasicAck) == BasicAck(1, False)


def test_a_request_needs_a_reply_consumer(client: Client) -> None:
    client.queue("rpc")
    client.publish("rpc", reply_to=REPLY_TO)
    text = "PRECONDITION_FAILED - fast reply consumer does not exist"
    assert client.next(ChannelClose) == ChannelClose(406, text, 60, 40)


def test_there_is_one_reply_consumer_for_a_channel(asking: Client) -> None:
    asking.send(BasicConsume(REPLY_TO, "more", no_ack=True))
    assert asking.next(ChannelClose).reply_text == "PRECONDITION_FAILED - reply consumer already set"


def test_who_still_waits_can_be_asked(world: World, asking: Client) -> None:
    server = world.client()
    name = asked(asking, server)
    assert server.call(QueueDeclare(name, passive=True), QueueDeclareOk) == QueueDeclareOk(name, 0, 1)
    asking.call(BasicCancel("replies"), BasicCancelOk)
    server.send(QueueDeclare(name, passive=True))
    assert server.next(ChannelClose).reply_code == 404


def test_the_word_for_direct_replies_can_always_be_declared(client: Client) -> None:
    assert client.call(QueueDeclare(REPLY_TO), QueueDeclareOk) == QueueDeclareOk(REPLY_TO, 0, 1)


def test_a_reply_to_who_has_gone_is_returned(world: World, asking: Client) -> None:
    server = world.client()
    name = asked(asking, server)
    world.hub.lost(asking.connection)
    server.publish(name, mandatory=True)
    assert server.next(BasicReturn).routing_key == name


def test_another_channel_of_the_same_connection_cannot_use_the_word(asking: Client) -> None:
    asking.open_channel(2)
    asking.publish("rpc", reply_to=REPLY_TO, channel=2)
    assert asking.next(ChannelClose, 2).reply_code == 406
