"""Questions and answers with pika: the pseudo-queue of direct reply-to, and a reply queue of one's own."""

import threading
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.clients.conftest import Broker, Unique
from tests.waiting import PATIENCE_S

DIRECT = "amq.rabbitmq.reply-to"


@pytest.fixture
def channel(broker: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        yield connection.channel()


@pytest.fixture
def squares(broker: Broker, unique: Unique) -> Iterator[str]:
    """The queue of a service that answers with the square of what it is sent, until it is sent nothing."""
    name = unique("squares")
    ready = threading.Event()

    def serve() -> None:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            service = connection.channel()
            service.queue_declare(name, auto_delete=True)
            service.basic_consume(name, answer)
            ready.set()
            service.start_consuming()

    def answer(service: Any, method: Any, properties: Any, body: bytes) -> None:
        service.basic_ack(method.delivery_tag)
        if not body:
            service.stop_consuming()
            return
        reply = pika.BasicProperties(correlation_id=properties.correlation_id)
        service.basic_publish("", properties.reply_to, str(int(body) ** 2).encode(), reply)

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield name
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.channel().basic_publish("", name, b"")
    thread.join(PATIENCE_S)


def ask(channel: BlockingChannel, service: str, reply_to: str, numbers: list[int]) -> dict[str, bytes]:
    """Send all questions, then collect the answers by their correlation id."""
    answers: dict[str, bytes] = {}

    def answered(_channel: Any, _method: Any, properties: Any, body: bytes) -> None:
        answers[properties.correlation_id] = body
        if len(answers) == len(numbers):
            channel.stop_consuming()

    channel.basic_consume(reply_to, answered, auto_ack=True)
    for number in numbers:
        properties = pika.BasicProperties(reply_to=reply_to, correlation_id=str(number))
        channel.basic_publish("", service, str(number).encode(), properties)
    channel.start_consuming()
    return answers


def test_direct_replies_reach_the_asking_channel(channel: BlockingChannel, squares: str) -> None:
    assert ask(channel, squares, DIRECT, [2, 3, 4]) == {"2": b"4", "3": b"9", "4": b"16"}


def test_replies_through_an_exclusive_queue(channel: BlockingChannel, squares: str) -> None:
    own = channel.queue_declare("", exclusive=True).method.queue
    assert ask(channel, squares, own, [5, 6]) == {"5": b"25", "6": b"36"}


def test_a_direct_question_without_a_reply_consumer_is_refused(channel: BlockingChannel, squares: str) -> None:
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.basic_publish("", squares, b"1", pika.BasicProperties(reply_to=DIRECT))
    assert refusal.value.reply_text == "PRECONDITION_FAILED - fast reply consumer does not exist"


def test_direct_replies_cannot_be_acknowledged(channel: BlockingChannel) -> None:
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.basic_consume(DIRECT, lambda *_: None, auto_ack=False)
    assert refusal.value.reply_text == "PRECONDITION_FAILED - reply consumer cannot acknowledge"
