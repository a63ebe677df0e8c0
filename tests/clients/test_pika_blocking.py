"""pika's blocking connection: publishing, taking, giving back, and what the broker says in between."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    UnroutableError,
)

from tests.clients.conftest import Broker, Unique
from tests.waiting import PATIENCE_S

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def connection(broker: Broker) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def queue(connection: pika.BlockingConnection, unique: Unique) -> Iterator[str]:
    name = unique("orders")
    connection.channel().queue_declare(name, durable=True)
    yield name
    if connection.is_open:
        connection.channel().queue_delete(name)


def take(channel: BlockingChannel, queue: str, count: int, **options: Any) -> list[tuple[Any, Any, bytes]]:
    """The next messages of a queue, consumed and not acknowledged."""
    taken: list[tuple[Any, Any, bytes]] = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=PATIENCE_S, **options):
        if method is None:
            break
        taken.append((method, properties, body))
        if len(taken) == count:
            break
    return taken


def test_a_message_comes_back_with_everything_that_it_had(channel: BlockingChannel, queue: str) -> None:
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"n": 1, "deep": {"list": [1, "two", None, True]}, "big": 2**40, "text": "ä"},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="x",
    )
    channel.basic_publish("", queue, b"hello", sent)
    method, properties, body = channel.basic_get(queue)
    assert body == b"hello"
    assert properties == sent
    assert (method.exchange, method.routing_key, method.redelivered, method.message_count) == ("", queue, False, 0)
    channel.basic_ack(method.delivery_tag)
    assert channel.basic_get(queue) == (None, None, None)


@pytest.mark.parametrize("size", [0, 1, 4096, 131_064, 131_065, 1_000_000])
def test_bodies_of_every_size_arrive_whole(channel: BlockingChannel, queue: str, size: int) -> None:
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    channel.confirm_delivery()
    channel.basic_publish("", queue, body, PERSISTENT)
    assert channel.basic_get(queue, auto_ack=True)[2] == body


def test_a_confirmed_message_without_a_queue_comes_back(channel: BlockingChannel, unique: Unique) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as refusal:
        channel.basic_publish("amq.direct", unique("nowhere"), b"lost", mandatory=True)
    (returned,) = refusal.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert returned.body == b"lost"


def test_a_full_queue_refuses_a_confirmed_message(channel: BlockingChannel, unique: Unique) -> None:
    name = unique("small")
    channel.queue_declare(name, exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"first")
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"second")
    assert channel.basic_get(name, auto_ack=True)[2] == b"first"


def test_returns_without_confirms_reach_the_callback(
    connection: pika.BlockingConnection, channel: BlockingChannel, unique: Unique
) -> None:
    returned: list[tuple[int, bytes]] = []
    channel.add_on_return_callback(
        lambda _channel, method, _properties, body: returned.append((method.reply_code, body))
    )
    channel.basic_publish("", unique("nowhere"), b"back", mandatory=True)
    channel.queue_declare("", exclusive=True)
    connection.process_data_events()
    assert returned == [(312, b"back")]


def test_the_consume_generator_keeps_order_and_gives_back_the_rest(channel: BlockingChannel, queue: str) -> None:
    for number in range(5):
        channel.basic_publish("", queue, str(number).encode())
    taken = take(channel, queue, 3)
    assert [body for _, _, body in taken] == [b"0", b"1", b"2"]
    channel.basic_ack(taken[-1][0].delivery_tag, multiple=True)
    channel.cancel()
    method, _, body = channel.basic_get(queue)
    assert (body, method.redelivered, method.message_count) == (b"3", True, 1)


def test_prefetch_bounds_what_is_pushed(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    for number in range(5):
        channel.basic_publish("", queue, str(number).encode())
    seen: list[int] = []
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume(queue, lambda _channel, method, _properties, _body: seen.append(method.delivery_tag))
    while len(seen) < 2:
        connection.process_data_events(PATIENCE_S)
    waiting = connection.channel().queue_declare(queue, durable=True, passive=True).method
    assert (waiting.message_count, waiting.consumer_count, len(seen)) == (3, 1, 2)
    channel.basic_ack(seen[-1], multiple=True)
    while len(seen) < 4:
        connection.process_data_events(PATIENCE_S)
    assert seen == [1, 2, 3, 4]


def test_a_requeued_message_is_first_again(channel: BlockingChannel, queue: str) -> None:
    for body in (b"a", b"b"):
        channel.basic_publish("", queue, body)
    first = channel.basic_get(queue)[0]
    channel.basic_nack(first.delivery_tag, requeue=True)
    again, _, body = channel.basic_get(queue)
    assert (body, again.redelivered) == (b"a", True)
    channel.basic_reject(again.delivery_tag, requeue=False)
    assert channel.basic_get(queue, auto_ack=True)[2] == b"b"


def test_recover_gives_everything_back(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"a")
    assert not channel.basic_get(queue)[0].redelivered
    channel.basic_recover(requeue=True)
    assert channel.basic_get(queue, auto_ack=True)[0].redelivered


def test_a_rejected_message_goes_to_the_dead_letter_exchange(channel: BlockingChannel, unique: Unique) -> None:
    dead, work = unique("dead"), unique("work")
    channel.queue_declare(dead, exclusive=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(work, exclusive=True, arguments=arguments)
    channel.basic_publish("", work, b"bad")
    channel.basic_reject(channel.basic_get(work)[0].delivery_tag, requeue=False)
    ((_, properties, body),) = take(channel, dead, 1, auto_ack=True)
    (death,) = properties.headers["x-death"]
    assert (body, death["queue"], death["reason"], death["count"]) == (b"bad", work, "rejected", 1)
    assert properties.headers["x-first-death-queue"] == work


def test_the_consumer_of_a_deleted_queue_is_told(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    connection.channel().queue_delete(queue)
    while not cancelled:
        connection.process_data_events(PATIENCE_S)
    assert cancelled == [tag]


def test_an_exclusive_queue_is_closed_to_others_and_ends_with_its_connection(
    broker: Broker, connection: pika.BlockingConnection
) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as owner:
        name = owner.channel().queue_declare("", exclusive=True).method.queue
        assert name.startswith("amq.gen-")
        with pytest.raises(ChannelClosedByBroker) as refusal:
            connection.channel().queue_declare(name, passive=True)
        assert refusal.value.reply_code == 405
    with pytest.raises(ChannelClosedByBroker) as refusal:
        connection.channel().queue_declare(name, passive=True)
    assert refusal.value.reply_code == 404


def test_a_refused_channel_leaves_the_connection_open(connection: pika.BlockingConnection, queue: str) -> None:
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.queue_declare(queue, durable=False)
    assert refusal.value.reply_code == 406
    assert refusal.value.reply_text.startswith(f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}'")
    assert connection.channel().queue_declare(queue, durable=True, passive=True).method.message_count == 0


def test_what_is_not_implemented_closes_the_connection(connection: pika.BlockingConnection) -> None:
    with pytest.raises(ConnectionClosedByBroker) as refusal:
        connection.channel().basic_qos(prefetch_size=1)
    assert refusal.value.reply_code == 540


def test_a_wrong_password_is_refused(broker: Broker) -> None:
    parameters = pika.URLParameters(broker.url.replace("guest:guest", "guest:wrong"))
    with pytest.raises(ProbableAuthenticationError) as refusal:
        pika.BlockingConnection(parameters)
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in str(refusal.value)


def test_an_unknown_virtual_host_is_refused(broker: Broker, unique: Unique) -> None:
    name = unique("nowhere")
    with pytest.raises(ProbableAccessDeniedError) as refusal:
        pika.BlockingConnection(pika.URLParameters(broker.url + name))
    assert f"(530) 'NOT_ALLOWED - vhost {name} not found'" in str(refusal.value)


def test_a_transaction_shows_nothing_until_it_is_committed(channel: BlockingChannel, queue: str) -> None:
    channel.tx_select()
    channel.basic_publish("", queue, b"taken back")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"kept")
    assert channel.basic_get(queue)[0] is None
    channel.tx_commit()
    assert channel.basic_get(queue, auto_ack=True)[2] == b"kept"


def test_the_server_says_what_clients_look_for(connection: pika.BlockingConnection) -> None:
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.publisher_confirms_supported
