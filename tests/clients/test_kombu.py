"""kombu, which Celery stands on: producers, consumers, simple queues, priorities, expiry and mailboxes."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.messaging import Consumer, Producer
from kombu.pidbox import Mailbox
from kombu.simple import SimpleQueue

from tests.clients.conftest import Broker, Unique
from tests.waiting import PATIENCE_S


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with Connection(broker.url, transport_options={"confirm_publish": True}) as connection:
        yield connection


@pytest.fixture
def declare(connection: Connection, unique: Unique) -> Iterator[Callable[..., Queue]]:
    """Declare a queue with an exchange of its own; both are gone after the test."""
    made: list[Queue] = []

    def build(name: str, kind: str = "direct", key: str = "k", **options: Any) -> Queue:
        exchange = Exchange(unique(f"{name}-exchange"), kind)
        queue = Queue(unique(name), exchange, routing_key=key, **options)(connection.default_channel)
        queue.declare()
        made.append(queue)
        return queue

    yield build
    for queue in made:
        queue.delete()
        queue.exchange.delete()


def receive(connection: Connection, queue: Queue, count: int, **options: Any) -> list[Any]:
    """The bodies of the next messages, acknowledged."""
    bodies: list[Any] = []

    def received(body: Any, message: Any) -> None:
        bodies.append(body)
        message.ack()

    with Consumer(connection.default_channel, [queue], callbacks=[received], **options):
        while len(bodies) < count:
            connection.drain_events(timeout=PATIENCE_S)
    return bodies


def test_objects_travel_between_producer_and_consumer(connection: Connection, declare: Callable[..., Queue]) -> None:
    queue = declare("orders")
    producer = Producer(connection, queue.exchange, "k")
    for number in range(3):
        producer.publish({"order": number}, headers={"n": number}, compression="zlib")
    assert receive(connection, queue, 3) == [{"order": 0}, {"order": 1}, {"order": 2}]


def test_publishing_with_retry_declares_what_is_missing(connection: Connection, unique: Unique) -> None:
    queue = Queue(unique("late"), Exchange(unique("late-exchange"), "topic"), routing_key="a.#", auto_delete=True)
    producer = Producer(connection)
    producer.publish("x", exchange=queue.exchange, routing_key="a.b", declare=[queue], retry=True)
    assert receive(connection, queue(connection.default_channel), 1) == ["x"]
    queue.exchange(connection.default_channel).delete()


def test_a_requeued_message_returns(connection: Connection, declare: Callable[..., Queue]) -> None:
    queue = declare("orders")
    Producer(connection, queue.exchange, "k").publish("again")
    message = queue.get()
    assert message is not None
    message.requeue()
    again = queue.get()
    assert again is not None
    assert (again.payload, again.delivery_info["redelivered"]) == ("again", True)
    again.ack()


def test_a_simple_queue_is_a_queue(connection: Connection, unique: Unique) -> None:
    queue = SimpleQueue(connection, unique("simple"), queue_opts={"durable": False, "auto_delete": True})
    for number in range(3):
        queue.put(number)
    assert queue.qsize() == 3
    taken = [queue.get(timeout=PATIENCE_S) for _ in range(3)]
    assert [message.payload for message in taken] == [0, 1, 2]
    taken[0].ack()
    taken[1].reject()
    taken[2].requeue()
    assert queue.get(timeout=PATIENCE_S).payload == 2
    queue.close()


def test_an_empty_simple_queue_says_so(connection: Connection, unique: Unique) -> None:
    queue = SimpleQueue(connection, unique("simple"), queue_opts={"durable": False, "auto_delete": True})
    with pytest.raises(queue.Empty):
        queue.get(block=False)
    queue.close()


def test_higher_priorities_come_first(connection: Connection, declare: Callable[..., Queue]) -> None:
    queue = declare("ranked", max_priority=10)
    producer = Producer(connection, queue.exchange, "k")
    for priority in (0, 5, 10, 1, 255):
        producer.publish(priority, priority=priority)
    assert receive(connection, queue, 5, prefetch_count=1) == [10, 255, 5, 1, 0]


def test_what_has_expired_is_not_delivered(connection: Connection, declare: Callable[..., Queue]) -> None:
    dead = declare("dead", kind="fanout")
    arguments = {"x-dead-letter-exchange": dead.exchange.name}
    queue = declare("short", queue_arguments=arguments)
    producer = Producer(connection, queue.exchange, "k")
    producer.publish("old", expiration=0.01)
    assert receive(connection, dead, 1) == ["old"]
    assert queue.get() is None


def test_a_consumer_on_many_queues_hears_all_of_them(connection: Connection, declare: Callable[..., Queue]) -> None:
    queues = [declare(f"q{number}") for number in range(4)]
    for number, queue in enumerate(queues):
        Producer(connection, queue.exchange, "k").publish(number)
    bodies: list[int] = []
    consumer = Consumer(
        connection.default_channel, queues, callbacks=[lambda body, _: bodies.append(body)], no_ack=True
    )
    consumer.qos(prefetch_count=2)
    with consumer:
        while len(bodies) < 4:
            connection.drain_events(timeout=PATIENCE_S)
    assert sorted(bodies) == [0, 1, 2, 3]


def test_an_idle_consumer_times_out(connection: Connection, declare: Callable[..., Queue]) -> None:
    with Consumer(connection.default_channel, [declare("idle")]), pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.05)


def test_a_mailbox_asks_its_nodes(broker: Broker, connection: Connection, unique: Unique) -> None:
    box = Mailbox(unique("control"), type="direct", accept=["json"])
    node = box(connection).Node("node@host", state={"answer": 42}, channel=connection.default_channel)
    node.handlers["answer"] = lambda state: state["answer"]
    node.listen(callback=node.handle_message)
    thread = threading.Thread(target=connection.drain_events, kwargs={"timeout": PATIENCE_S})
    thread.start()
    with Connection(broker.url) as asking:
        assert box(asking).call(["node@host"], "answer", timeout=PATIENCE_S) == [{"node@host": 42}]
    thread.join(PATIENCE_S)
