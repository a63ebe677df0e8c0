"""The queue pushes to consumers before the server handles the next method of a channel that can observe the push.

Each test sends its frames in one write, so that the server reads them in one turn.
"""

import pytest

from leveret.core.properties import Properties, content
from leveret.wire.codec import encode
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.protocols.amqp.client import Client, World

COUNT = 10
Said = list[Method]


def pipelined(client: Client, *methods: Method, delivery_mode: int | None = None) -> Said:
    """What the server answers to methods that arrive in one piece."""
    for method in methods:
        if isinstance(method, BasicPublish):
            client.writer.content(1, encode(method), *content(Properties(delivery_mode=delivery_mode), b"m"))
        else:
            client.writer.method(1, encode(method))
    client.send_bytes(client.writer.take())
    return [each.method for each in client.received()]


def deliveries(count: int, *, first: int = 1, redelivered: bool = False) -> Said:
    return [BasicDeliver("c", first + number, redelivered, "", "q") for number in range(count)]


@pytest.fixture
def consumer(client: Client) -> Client:
    """A client with a durable queue and an idle consumer on it."""
    client.queue(durable=True)
    client.call(BasicConsume("q", "c"), BasicConsumeOk)
    return client


PUBLISHES = [BasicPublish("", "q")] * COUNT
OBSERVERS: list[tuple[Method, Said]] = [
    (BasicCancel("c"), [BasicCancelOk("c")]),
    (BasicGet("q"), [BasicGetEmpty()]),
    (BasicQos(0, 1, True), [BasicQosOk()]),
    (QueueDeclare("q", passive=True), [QueueDeclareOk("q", 0, 1)]),
    (QueuePurge("q"), [QueuePurgeOk(0)]),
]


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize(("method", "answer"), OBSERVERS)
def test_a_consumer_gets_all_publishes_before_a_method_is_answered(
    consumer: Client, method: Method, answer: Said, mode: int
) -> None:
    assert pipelined(consumer, *PUBLISHES, method, delivery_mode=mode) == [*deliveries(COUNT), *answer]


def test_a_consumer_gets_all_publishes_before_its_queue_is_deleted(consumer: Client) -> None:
    said = pipelined(consumer, *PUBLISHES, QueueDelete("q"))
    assert said == [*deliveries(COUNT), QueueDeleteOk(0), BasicCancel("c", nowait=True)]


def test_a_consumer_gets_a_committed_transaction_before_the_next_method(consumer: Client) -> None:
    assert pipelined(consumer, TxSelect(), *PUBLISHES, TxCommit(), BasicGet("q")) == [
        TxSelectOk(),
        TxCommitOk(),
        *deliveries(COUNT),
        BasicGetEmpty(),
    ]


def test_a_message_that_a_channel_got_before_it_was_closed_is_redelivered(consumer: Client) -> None:
    again = ChannelOpen(), BasicConsume("q", "c")
    said = pipelined(consumer, BasicPublish("", "q"), ChannelClose(200, "", 0, 0), *again)
    assert said[:4] == [*deliveries(1), ChannelCloseOk(), ChannelOpenOk(), BasicConsumeOk("c")]
    assert said[4:] == deliveries(1, redelivered=True)


def test_a_consumer_gets_what_waits_before_it_is_cancelled(client: Client) -> None:
    client.queue()
    said = pipelined(client, *PUBLISHES, BasicConsume("q", "c"), BasicCancel("c"))
    assert said == [BasicConsumeOk("c"), *deliveries(COUNT), BasicCancelOk("c")]


def test_an_ack_makes_room_for_a_consumer_before_a_get(client: Client) -> None:
    client.queue()
    client.call(BasicQos(0, 1, False), BasicQosOk)
    pipelined(client, BasicConsume("q", "c"), *PUBLISHES[:2])
    assert pipelined(client, BasicAck(1), BasicGet("q")) == [*deliveries(1, first=2), BasicGetEmpty()]


def test_consumers_of_other_connections_get_publishes_first(world: World, consumer: Client) -> None:
    publisher = world.client()
    assert pipelined(publisher, *PUBLISHES, BasicGet("q")) == [BasicGetEmpty()]
    assert len(consumer.received()) == COUNT
