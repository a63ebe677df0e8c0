"""Receivers that wait are woken by whatever makes a message ready, and by nothing else."""

import threading
from collections.abc import Callable

import pytest

import leveret
from tests.embedded.conftest import Calls
from tests.waiting import PATIENCE_S

Waiting = Callable[[str, int], None]


def bodies(messages: list[leveret.Message]) -> list[object]:
    return [message.body for message in messages]


@pytest.fixture
def orders(broker: leveret.Broker) -> leveret.Queue:
    return broker.queue("orders", visibility_timeout=30)


@pytest.mark.everywhere
def test_a_send_wakes_a_receiver(orders: leveret.Queue, calls: Calls, waiting: Waiting) -> None:
    received = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    orders.send("hello")
    assert bodies(received.result()) == ["hello"]


@pytest.mark.everywhere
def test_one_message_wakes_one_of_two_and_the_other_waits_on(
    orders: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    first = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    second = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 2)
    orders.send("only")
    assert bodies(first.result()) == ["only"]
    assert orders.stats().waiters == 1
    clock.advance(19.999)
    orders.send("another")
    assert bodies(second.result()) == ["another"]


def test_nothing_came_in_time(
    orders: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    received = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    clock.advance(20)
    assert received.result() == []
    assert orders.stats().waiters == 0


@pytest.mark.everywhere
def test_the_end_of_a_delay_wakes(
    orders: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    orders.send("later", delay=5)
    received = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    clock.advance(5)
    assert bodies(received.result()) == ["later"]


@pytest.mark.everywhere
def test_the_end_of_a_lease_wakes(
    orders: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    orders.send("again")
    orders.receive()
    received = calls.start(orders.receive, 1, wait=60)
    waiting("orders", 1)
    clock.advance(30)
    assert bodies(received.result()) == ["again"]


@pytest.mark.everywhere
def test_an_earlier_deadline_than_the_planned_one_is_kept(
    orders: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    orders.send("much later", delay=500)
    orders.send("later", delay=5)
    received = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    clock.advance(5)
    assert bodies(received.result()) == ["later"]


@pytest.mark.everywhere
def test_resume_wakes(orders: leveret.Queue, calls: Calls, waiting: Waiting) -> None:
    orders.pause()
    orders.send("held back")
    received = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    orders.resume()
    assert bodies(received.result()) == ["held back"]


@pytest.mark.everywhere
def test_a_redrive_wakes(broker: leveret.Broker, calls: Calls, waiting: Waiting) -> None:
    orders = broker.queue("orders", dead_letter="dlq")
    orders.send("second chance")
    orders.receive()[0].reject()
    received = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    broker.queue("dlq").redrive()
    assert bodies(received.result()) == ["second chance"]


@pytest.mark.everywhere
def test_an_ack_lets_the_next_of_a_group_go(orders: leveret.Queue, calls: Calls, waiting: Waiting) -> None:
    orders.send_many(["a1", "a2"], group="a")
    (first,) = orders.receive(10)
    received = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    first.ack()
    assert bodies(received.result()) == ["a2"]


@pytest.mark.everywhere
def test_closing_wakes_all(broker: leveret.Broker, orders: leveret.Queue, calls: Calls, waiting: Waiting) -> None:
    received = [calls.start(orders.receive, 1, wait=20) for _ in range(3)]
    waiting("orders", 3)
    broker.close()
    for each in received:
        with pytest.raises(leveret.BrokerClosed, match="open it again"):
            each.result()


@pytest.mark.everywhere
def test_deleting_the_queue_wakes_all(orders: leveret.Queue, calls: Calls, waiting: Waiting) -> None:
    received = calls.start(orders.receive, 1, wait=20)
    waiting("orders", 1)
    orders.delete()
    with pytest.raises(leveret.QueueNotFound, match="declare it again"):
        received.result()


@pytest.mark.everywhere
def test_every_message_reaches_exactly_one_of_many_threads(orders: leveret.Queue, calls: Calls) -> None:
    seen: list[object] = []
    enough = threading.Event()

    def consume() -> None:
        for message in orders:
            message.ack()
            seen.append(message.body)
            if len(seen) == 2_000:
                enough.set()

    consumers = [calls.start(consume) for _ in range(8)]
    producers = [calls.start(orders.send_many, range(start, start + 500)) for start in range(0, 2_000, 500)]
    for producer in producers:
        producer.result()
    assert enough.wait(PATIENCE_S)
    orders.broker.close()
    for consumer in consumers:
        consumer.result()
    assert sorted(seen, key=str) == sorted(range(2_000), key=str)
