"""Publishing through exchanges, and consumers that are pushed to."""

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

import leveret
from tests.waiting import PATIENCE_S

Reopen = Callable[[], leveret.Broker]


@pytest.mark.everywhere
def test_a_topic_reaches_what_is_bound_to_it(broker: leveret.Broker) -> None:
    events = broker.exchange("events", "topic")
    new, every = broker.queue("new"), broker.queue("every")
    events.bind(new, "orders.new")
    events.bind("every", "orders.*")
    sent = events.publish("orders.new", {"n": 1}, headers={"a": "b"}, ttl=60)
    assert events.publish("orders.paid", "x") is not None
    (message,) = new.receive(10)
    assert (message.id, message.body, message.headers) == (sent, {"n": 1}, {"a": "b"})
    assert (message.exchange, message.routing_key) == ("events", "orders.new")
    assert len(every) == 2


@pytest.mark.everywhere
def test_without_a_route_there_is_no_id(broker: leveret.Broker) -> None:
    assert broker.exchange("events", "topic").publish("nobody", "x") is None


@pytest.mark.everywhere
def test_exchanges_are_bound_to_each_other_and_unbound(broker: leveret.Broker) -> None:
    outer, inner = broker.exchange("outer", "fanout"), broker.exchange("inner", "fanout")
    queue = broker.queue("queue")
    outer.bind(inner)
    inner.bind(queue)
    outer.publish("", "both ways")
    inner.unbind(queue)
    assert outer.publish("", "lost") is None
    assert [message.body for message in queue.receive(10)] == ["both ways"]
    inner.delete()
    assert broker.exchange("outer").publish("", "lost") is None


def test_topology_survives_a_restart(reopen: Reopen) -> None:
    broker = reopen()
    broker.exchange("events", "topic").bind(broker.queue("queue"), "a.#")
    broker = reopen()
    broker.exchange("events").publish("a.b.c", "x")
    assert len(broker.queue("queue")) == 1
    with pytest.raises(leveret.PreconditionFailed, match="type"):
        broker.exchange("events", "fanout")


@pytest.mark.everywhere
def test_a_full_queue_behind_an_exchange_is_told(broker: leveret.Broker) -> None:
    events = broker.exchange("events", "fanout")
    events.bind(broker.queue("full", max_length=0, overflow="reject-publish"))
    with pytest.raises(leveret.QueueFull, match="behind exchange 'events'"):
        events.publish("", "x")


def test_a_consumer_is_called_back(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    seen: SimpleQueue[object] = SimpleQueue()

    def callback(message: leveret.Message) -> None:
        seen.put(message.body)
        message.ack()

    orders.send("before")
    subscription = orders.consume(callback, prefetch=1)
    orders.send("after")
    assert [seen.get(timeout=PATIENCE_S) for _ in range(2)] == ["before", "after"]
    subscription.cancel()
    orders.send("too late")
    assert len(orders) == 1


def test_a_consumer_gets_no_more_than_its_prefetch_and_gives_the_rest_back(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", backoff="none")
    entered, leave = threading.Event(), threading.Event()

    def callback(message: leveret.Message) -> None:
        entered.set()
        assert leave.wait(PATIENCE_S)
        message.ack()

    orders.send_many(["1", "2", "3", "4"])
    subscription = orders.consume(callback, prefetch=3)
    assert entered.wait(PATIENCE_S)
    assert (orders.stats().leased, orders.stats().ready) == (3, 1)
    leave.set()
    subscription.cancel()
    stats = orders.stats()
    assert stats.leased == 0
    assert stats.acked + stats.ready == 4


def test_a_callback_that_fails_gives_the_message_back(broker: leveret.Broker, caplog: pytest.LogCaptureFixture) -> None:
    orders = broker.queue("orders", dead_letter="dlq", backoff="none")

    def fail(message: leveret.Message) -> None:
        raise OSError("cannot")

    orders.send("secret")
    with caplog.at_level(logging.ERROR):
        orders.consume(fail)
        while not len(broker.queue("dlq")):
            os.sched_yield()
    assert "cannot" in caplog.text
    assert "secret" not in caplog.text


def test_an_exclusive_consumer_is_alone(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.consume(print, exclusive=True)
    with pytest.raises(leveret.AccessRefused, match="exclusive"):
        orders.consume(print)
    with pytest.raises(leveret.InvalidArgument, match="prefetch"):
        orders.consume(print, prefetch=0)


def test_receivers_still_wait_when_a_consumer_leaves(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    received: list[leveret.Message] = []
    subscription = orders.consume(print)
    thread = threading.Thread(target=lambda: received.extend(orders.receive(1, wait=20)))
    thread.start()
    while orders.stats().waiters == 0:
        os.sched_yield()
    subscription.cancel()
    orders.send("x")
    thread.join()
    assert [message.body for message in received] == ["x"]


def test_a_consumer_ends_with_its_queue(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    subscription = orders.consume(print)
    orders.delete()
    subscription.cancel()
    assert orders.anyway.consumers == []
