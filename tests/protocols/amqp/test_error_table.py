"""Every row of the error table on the wire: the exact answer, and that nobody else suffers from it."""

import pytest

from leveret.wire import methods as m
from leveret.wire.methods import Method
from tests.protocols.amqp.error_rows import CHANNEL_ROWS, CONNECTION_ROWS
from tests.protocols.amqp.frame_rows import FRAME_ROWS
from tests.protocols.amqp.steps import Elsewhere, Row, Step, answer, complete, ids_of, perform
from tests.protocols.amqp.targets import Target
from tests.protocols.amqp.wire import Client, content_frames, frame, method_frame


def row_name(row: Row) -> str:
    return row.name


def provoke(client: Client, other: Client, steps: tuple[Step, ...]) -> tuple[int, Method]:
    """Do all steps; give what the last one was answered with."""
    for step in steps[:-1]:
        if isinstance(step, Elsewhere):
            complete(other, step.step)
        else:
            complete(client, step)
    perform(client, steps[-1])
    return answer(client)


def check(row: Row, target: Target, close: Method) -> None:
    """Compare an answer with a row, word by word."""
    assert isinstance(close, m.ChannelClose | m.ConnectionClose), f"answered with {close}"
    reply, text = (row.older if target.older else None) or (row.reply, row.text)
    if reply is None:
        return
    assert (close.class_id, close.method_id) == ids_of(row.steps[-1])
    assert close.reply_code == reply
    assert close.reply_text == f"{reply.name} - {text}" or text is None


@pytest.mark.parametrize("row", CHANNEL_ROWS, ids=row_name)
def test_an_error_that_closes_the_channel(target: Target, row: Row) -> None:
    if target.older and row.older:
        pytest.skip("closes the connection in RabbitMQ 3.10")
    with target.connect().open(channels=(1, 2)) as client, target.connect().open() as other:
        channel, close = provoke(client, other, row.steps)
        check(row, target, close)
        assert isinstance(close, m.ChannelClose)
        assert channel == 1
        # Until the client has agreed, what it sends on that channel is not even looked at.
        client.send(1, m.QueueDeclare("ignored"), m.BasicAck(99), m.ChannelCloseOk())
        client.call(1, m.ChannelOpen())
        client.call(1, m.BasicQos(prefetch_count=1))
        client.call(2, m.BasicQos(prefetch_count=1))
        other.call(1, m.BasicQos(prefetch_count=1))
        client.send(2, m.QueueDeclare("ignored", passive=True))
        assert client.expect(2, m.ChannelClose).reply_code == 404
        other.leave()


@pytest.mark.parametrize("row", CONNECTION_ROWS + FRAME_ROWS, ids=row_name)
def test_an_error_that_closes_the_connection(target: Target, row: Row) -> None:
    if target.older and row.older and row.older[0] is None:
        pytest.skip("RabbitMQ 3.10 hangs or breaks here")
    with target.connect().open(channels=(1, 2)) as client, target.connect().open() as other:
        channel, close = provoke(client, other, row.steps)
        check(row, target, close)
        assert isinstance(close, m.ConnectionClose)
        assert channel == 0
        client.send(2, m.QueueDeclare("ignored"))
        client.send(0, m.ConnectionCloseOk())
        assert client.ended()
        other.send(1, m.QueueDeclare("ignored", passive=True))
        assert other.expect(1, m.ChannelClose).reply_code == 404
        other.leave()


@pytest.mark.parametrize("bad", [method_frame(1, m.BasicAck(99)), method_frame(1, m.BasicQos(1)), frame(9, 1, b"")])
def test_what_follows_an_error_in_the_same_breath_has_no_effect(target: Target, bad: bytes) -> None:
    publish = method_frame(1, m.BasicPublish("", "q")) + b"".join(content_frames(1, None, b"too late"))
    with target.connect().open(channels=(1, 2)) as client, target.connect().open() as other:
        other.call(1, m.QueueDeclare("q"))
        client.raw(bad, publish, method_frame(1, m.QueueDelete("q")), publish)
        _, close = client.any_method()
        assert isinstance(close, m.ChannelClose | m.ConnectionClose)
        assert other.call(1, m.QueueDeclare("q", passive=True)) == m.QueueDeclareOk("q", 0, 0)
