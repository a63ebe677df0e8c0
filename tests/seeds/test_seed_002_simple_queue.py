"""The simple queue: publish, receive, acknowledge, and the return of what nobody acknowledged in time."""

import os
import threading
from collections.abc import Callable

import pytest

import leveret
from tests.embedded.conftest import Calls
from tests.seeds.conftest import bodies, settled
from tests.waiting import PATIENCE_S

Waiting = Callable[[leveret.Queue, int], None]
VISIBILITY_S = 3


@pytest.fixture
def queue(broker: leveret.Broker) -> leveret.Queue:
    return broker.queue("simple", visibility_timeout=VISIBILITY_S)


def test_publishing_gives_every_message_an_id_of_its_own(queue: leveret.Queue) -> None:
    sent = [queue.send("same text") for _ in range(3)]
    assert len(set(sent)) == 3
    assert [message.id for message in queue.receive(3)] == sent


def test_a_received_message_is_in_flight_and_hidden_from_others(queue: leveret.Queue) -> None:
    queue.send("message 1")
    (message,) = queue.receive()
    assert message.leased
    assert queue.receive() == []
    assert (queue.stats().ready, queue.stats().leased) == (0, 1)


def test_an_acknowledged_message_is_gone_for_good(queue: leveret.Queue, clock: leveret.ManualClock) -> None:
    queue.send("message 1")
    queue.receive()[0].ack()
    clock.advance(VISIBILITY_S * 10)
    assert queue.receive() == []
    assert settled(queue)


def test_without_an_acknowledgement_it_reappears_after_the_timeout(
    queue: leveret.Queue, clock: leveret.ManualClock
) -> None:
    sent = queue.send("message 1")
    queue.receive()
    clock.advance(VISIBILITY_S - 0.001)
    assert queue.receive() == []
    clock.advance(0.001)
    (again,) = queue.receive()
    assert (again.id, again.body, again.redelivered) == (sent, "message 1", True)


def test_first_in_is_first_out(queue: leveret.Queue) -> None:
    for number in range(1, 4):
        queue.send(f"message {number}")
    assert [queue.receive()[0].body for _ in range(3)] == ["message 1", "message 2", "message 3"]


def test_receiving_waits_until_something_is_published(queue: leveret.Queue, calls: Calls, waiting: Waiting) -> None:
    received = calls.start(queue.receive, 1, wait=10)
    waiting(queue, 1)
    queue.send("message 1")
    assert bodies(received.result()) == ["message 1"]


def test_receiving_gives_up_after_its_timeout(
    queue: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    received = calls.start(queue.receive, 1, wait=10)
    waiting(queue, 1)
    clock.advance(9.999)
    assert not received.done()
    clock.advance(0.001)
    assert received.result() == []


def test_a_wake_up_that_came_for_another_is_not_taken_for_a_message(
    queue: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    receivers = [calls.start(queue.receive, 1, wait=VISIBILITY_S - 1) for _ in range(3)]
    waiting(queue, 3)
    queue.send("message 1")
    while not any(receiver.done() for receiver in receivers):
        os.sched_yield()
    waiting(queue, 2)
    clock.advance(VISIBILITY_S - 1)
    assert sorted(len(receiver.result()) for receiver in receivers) == [0, 0, 1]


def test_all_that_wait_are_woken_when_several_messages_time_out(
    queue: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    queue.send_many(["message 1", "message 2", "message 3"])
    assert len(queue.receive(3)) == 3
    receivers = [calls.start(queue.receive, 1, wait=10) for _ in range(3)]
    waiting(queue, 3)
    clock.advance(VISIBILITY_S)
    assert sorted(receiver.result()[0].body for receiver in receivers) == ["message 1", "message 2", "message 3"]


def test_good_consumers_finish_what_a_bad_one_left_and_the_queue_ends_empty(
    queue: leveret.Queue, calls: Calls, clock: leveret.ManualClock
) -> None:
    done: list[object] = []
    crashed = threading.Event()

    def producer() -> None:
        for number in range(1, 4):
            queue.send(f"message {number}")

    def good_consumer() -> None:
        assert crashed.wait(PATIENCE_S)
        while message := queue.receive(1, wait=10):
            message[0].ack()
            done.extend(bodies(message))  # last: whoever sees it lets time pass

    def bad_consumer() -> object:
        (message,) = queue.receive(1, wait=10)
        crashed.set()
        return message.body

    lost = calls.start(bad_consumer)
    consumers = [calls.start(good_consumer) for _ in range(2)]
    calls.start(producer).result()
    left = lost.result()
    while len(done) < 2:
        os.sched_yield()
    assert left not in done
    clock.advance(VISIBILITY_S)
    while len(done) < 3:
        os.sched_yield()
    while not all(consumer.done() for consumer in consumers):
        clock.advance(10)
    assert sorted(map(str, done)) == ["message 1", "message 2", "message 3"]
    assert done[-1] == left
    assert settled(queue)


def test_many_producers_and_consumers_share_one_queue(queue: leveret.Queue, calls: Calls) -> None:
    producers = [calls.start(queue.send_many, range(start, start + 50)) for start in (0, 50, 100, 150)]
    for producer in producers:
        producer.result()

    def drain() -> list[object]:
        seen: list[object] = []
        while messages := queue.receive(1):
            seen += bodies(messages)
            messages[0].ack()
        return seen

    seen = [body for consumer in [calls.start(drain) for _ in range(4)] for body in consumer.result()]
    assert sorted(seen, key=str) == sorted(range(200), key=str)
    assert settled(queue)
