"""What looks like an error and is none: RabbitMQ lets it pass, so clients rely on it."""

import pytest

from leveret.core.properties import Properties
from leveret.core.tables import Long
from leveret.wire import methods as m
from leveret.wire.methods import Method
from tests.protocols.amqp.error_rows import FAST, queue
from tests.protocols.amqp.steps import Elsewhere, On, Publish, Step, answer, complete, perform
from tests.protocols.amqp.targets import Target

ROWS: list[tuple[str, tuple[Step, ...], Method]] = [
    ("deleting a missing queue", (m.QueueDelete("q"),), m.QueueDeleteOk(0)),
    ("deleting a missing exchange", (m.ExchangeDelete("x"),), m.ExchangeDeleteOk()),
    ("cancelling an unknown consumer", (m.BasicCancel("nobody"),), m.BasicCancelOk("nobody")),
    (
        "an exchange of the broker, asked for",
        (m.ExchangeDeclare("amq.topic", "topic", passive=True),),
        m.ExchangeDeclareOk(),
    ),
    (
        "an exchange of the broker, as it is",
        (m.ExchangeDeclare("amq.topic", "topic", durable=True),),
        m.ExchangeDeclareOk(),
    ),
    (
        "the same limit as another integer",
        (queue(arguments={"x-max-length": 5}), queue(arguments={"x-max-length": Long(5)})),
        m.QueueDeclareOk("q", 0, 0),
    ),
    (
        "the default type by its name",
        (queue(), queue(arguments={"x-queue-type": "classic"})),
        m.QueueDeclareOk("q", 0, 0),
    ),
    ("an argument that nobody knows", (queue(), queue(arguments={"x-curious": 1})), m.QueueDeclareOk("q", 0, 0)),
    ("a name with line ends", (queue("q\r\n"),), m.QueueDeclareOk("q", 0, 0)),
    ("the last declared queue", (queue(), m.QueuePurge("")), m.QueuePurgeOk(0)),
    (
        "binding the last declared queue by its own name",
        (queue(), m.QueueBind("", "amq.direct", ""), Publish("amq.direct", "q"), m.BasicGet("")),
        m.BasicGetOk(1, False, "amq.direct", "q", 0),
    ),
    ("acknowledging everything of nothing", (m.BasicAck(0, multiple=True), m.BasicQos()), m.BasicQosOk()),
    (
        "acknowledging everything",
        (
            queue(),
            Publish(),
            Publish(),
            m.BasicGet("q"),
            m.BasicGet("q"),
            m.BasicAck(0, multiple=True),
            m.QueueDelete("q"),
        ),
        m.QueueDeleteOk(0),
    ),
    ("unbinding what is not bound", (queue(), m.QueueUnbind("q", "amq.direct", "k")), m.QueueUnbindOk()),
    ("publishing where nobody is bound", (Publish("amq.direct", "nowhere"), m.BasicQos()), m.BasicQosOk()),
    ("a copy to what is no text", (Publish(properties=Properties(headers={"CC": [1]})), m.BasicQos()), m.BasicQosOk()),
    (
        "a user who publishes as himself",
        (Publish(properties=Properties(user_id="guest")), m.BasicQos()),
        m.BasicQosOk(),
    ),
    ("a priority above all", (queue(), Publish(properties=Properties(priority=255)), m.BasicQos()), m.BasicQosOk()),
    ("flow that goes on", (m.ChannelFlow(active=True),), m.ChannelFlowOk(active=True)),
    ("a limit on all consumers", (m.BasicQos(prefetch_count=1, global_qos=True),), m.BasicQosOk()),
    ("confirms twice", (m.ConfirmSelect(), m.ConfirmSelect()), m.ConfirmSelectOk()),
    ("transactions twice", (m.TxSelect(), m.TxSelect()), m.TxSelectOk()),
    ("fast replies", (m.BasicConsume(FAST, "me", no_ack=True),), m.BasicConsumeOk("me")),
    (
        "the tag of another channel",
        (queue(), On(2, m.BasicConsume("q", "c")), m.BasicConsume("q", "c")),
        m.BasicConsumeOk("c"),
    ),
    (
        "the tag of another connection",
        (queue(), Elsewhere(m.BasicConsume("q", "c")), m.BasicConsume("q", "c")),
        m.BasicConsumeOk("c"),
    ),
    ("giving everything back", (queue(), Publish(), m.BasicGet("q"), m.BasicRecover(requeue=True)), m.BasicRecoverOk()),
    ("access as of old", (m.AccessRequest("/data"),), m.AccessRequestOk(1)),
]


@pytest.mark.parametrize(("steps", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_this_is_no_error(target: Target, steps: tuple[Step, ...], expected: Method) -> None:
    with target.connect().open(channels=(1, 2)) as client, target.connect().open() as other:
        for step in steps[:-1]:
            complete(*((other, step.step) if isinstance(step, Elsewhere) else (client, step)))
        perform(client, steps[-1])
        assert answer(client) == (1, expected)


def test_closing_a_channel_twice_at_the_same_time(target: Target) -> None:
    with target.connect().open() as client:
        client.send(1, m.BasicAck(99))
        client.expect(1, m.ChannelClose)
        # Both sides want to close: each answers the other, and the channel is free once the client has answered.
        client.send(1, m.ChannelClose(200, "bye"))
        client.expect(1, m.ChannelCloseOk)
        client.send(1, m.ChannelCloseOk())
        client.call(1, m.ChannelOpen())


def test_deliveries_go_on_after_another_channel_was_closed(target: Target) -> None:
    with target.connect().open(channels=(1, 2)) as client:
        client.call(2, m.QueueDeclare("q"))
        client.call(2, m.BasicConsume("q", "c", no_ack=True))
        client.send(1, m.BasicAck(99))
        client.expect(1, m.ChannelClose)
        client.send(1, m.ChannelCloseOk())
        client.publish(2, m.BasicPublish("", "q"), None, b"still here")
        assert client.expect(2, m.BasicDeliver).delivery_tag == 1
        assert client.content(2).body == b"still here"


def test_what_a_closed_channel_held_comes_back(target: Target) -> None:
    with target.connect().open(channels=(1, 2)) as client:
        client.call(2, m.QueueDeclare("q"))
        client.publish(2, m.BasicPublish("", "q"), None, b"held")
        client.call(1, m.BasicGet("q"))
        client.content(1)
        client.send(1, m.BasicAck(99))
        client.expect(1, m.ChannelClose)
        client.send(1, m.ChannelCloseOk())
        found = client.call(2, m.BasicGet("q"))
        assert isinstance(found, m.BasicGetOk)
        assert found.redelivered
        assert client.content(2).body == b"held"
