"""The queue service: send, receive, acknowledge, retries with backoff, dead letters, delays, expiry and routing."""

import json
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

import leveret
from tests.embedded.conftest import Calls
from tests.seeds.conftest import Home, bodies, settled
from tests.waiting import PATIENCE_S

Waiting = Callable[[leveret.Queue, int], None]
DAY_S = 24 * 3600
ORDER = b'{"order_id": 123, "amount": 99.99}'


@pytest.fixture
def orders(broker: leveret.Broker) -> leveret.Queue:
    return broker.queue("orders", visibility_timeout=30, max_deliveries=3, dead_letter="orders-dlq", max_priority=10)


# The usage example


def test_an_order_is_sent_processed_and_acknowledged(orders: leveret.Queue) -> None:
    message_id = orders.send(ORDER, priority=5)
    messages = orders.receive(10, wait=20)
    assert [(each.id, each.body, each.priority) for each in messages] == [(message_id, ORDER, 5)]
    assert json.loads(messages[0].data)["order_id"] == 123
    for message in messages:
        message.ack()
    assert settled(orders)


def test_an_order_whose_processing_raised_is_retried(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send(ORDER)
    for message in orders.receive(10):
        message.nack()
    assert orders.receive(10) == []
    clock.advance(2)
    assert [(each.body, each.deliveries) for each in orders.receive(10)] == [(ORDER, 2)]


# Acknowledging and giving back


def test_acknowledging_what_is_not_in_flight_is_refused(orders: leveret.Queue) -> None:
    orders.send(ORDER)
    (message,) = orders.receive()
    message.ack()
    for settle in (message.ack, message.nack, message.reject):
        with pytest.raises(leveret.InvalidReceipt):
            settle()


@pytest.mark.parametrize("tries", [1, 3, 5])
def test_a_message_has_as_many_tries_as_its_queue_says(broker: leveret.Broker, tries: int) -> None:
    queue = broker.queue("queue", max_deliveries=tries, dead_letter="dlq", backoff="none", max_priority=9)
    queue.send("poison", priority=7)
    counts = []
    while messages := queue.receive():
        counts.append(messages[0].deliveries)
        messages[0].nack()
    assert counts == list(range(1, tries + 1))
    dead = broker.queue("dlq").receive()[0]
    assert (dead.body, dead.properties.priority) == ("poison", 7)


def test_without_a_place_for_dead_letters_an_exhausted_message_is_dropped(broker: leveret.Broker) -> None:
    queue = broker.queue("queue", max_deliveries=1)
    queue.send("poison")
    queue.receive()[0].nack()
    assert settled(queue)
    assert queue.stats().dead["delivery_limit"] == 1


def test_giving_back_without_requeueing_makes_a_dead_letter(broker: leveret.Broker, orders: leveret.Queue) -> None:
    orders.send(ORDER)
    orders.receive()[0].reject()
    assert bodies(broker.queue("orders-dlq").receive()) == [ORDER]


def test_retries_wait_two_to_the_power_of_the_deliveries_but_never_over_fifteen_minutes(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    queue = broker.queue("flaky")
    queue.send("again")
    for wait_s in (2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900):
        queue.receive()[0].nack()
        clock.advance(wait_s - 0.001)
        assert queue.receive() == []
        clock.advance(0.001)
    assert bodies(queue.receive()) == ["again"]


# Visibility


def test_what_times_out_is_available_again(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send(ORDER)
    orders.receive()
    clock.advance(30)
    assert [each.deliveries for each in orders.receive()] == [2]


def test_a_receiver_may_ask_for_another_visibility(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send(ORDER)
    orders.receive(1, visibility_timeout=5)
    clock.advance(5)
    assert len(orders.receive(1, visibility_timeout=100)) == 1
    clock.advance(99)
    assert orders.receive() == []


# Order, delay, expiry


def test_higher_priorities_first_and_first_in_first_out_within_one(orders: leveret.Queue) -> None:
    for body, priority in (("low", 1), ("high 1", 9), ("middle", 5), ("high 2", 9)):
        orders.send(body, priority=priority)
    assert bodies(orders.receive(10)) == ["high 1", "high 2", "middle", "low"]


def test_a_delayed_message_is_delivered_in_the_future(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send("later", delay=60)
    assert (orders.receive(), orders.stats().scheduled) == ([], 1)
    clock.advance(60)
    assert bodies(orders.receive()) == ["later"]


def test_a_message_expires_after_its_time_to_live(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send("stale", ttl=10)
    orders.send("fresh", ttl=11)
    clock.advance(10)
    assert bodies(orders.receive(10)) == ["fresh"]
    assert orders.stats().expired == 1


@pytest.mark.parametrize(("options", "kept_s"), [({}, 14 * DAY_S), ({"retention": 60}, 60)])
def test_messages_are_kept_for_the_retention_and_no_longer(
    broker: leveret.Broker, clock: leveret.ManualClock, options: dict[str, Any], kept_s: int
) -> None:
    queue = broker.queue("queue", **options)
    queue.send("old")
    clock.advance(kept_s - 1)
    assert queue.stats().ready == 1
    clock.advance(1)
    assert queue.stats().ready == 0


def test_a_full_queue_refuses(broker: leveret.Broker) -> None:
    queue = broker.queue("short", max_length=2, overflow="reject-publish")
    queue.send_many(["1", "2"])
    with pytest.raises(leveret.QueueFull):
        queue.send("3")
    queue.receive()[0].ack()
    queue.send("3")
    assert bodies(queue.receive(10)) == ["2", "3"]


# Receiving


def test_a_long_poll_ends_with_the_first_message_or_with_its_time(
    orders: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    polled = calls.start(orders.receive, 10, wait=20)
    waiting(orders, 1)
    orders.send(ORDER)
    assert bodies(polled.result()) == [ORDER]
    empty = calls.start(orders.receive, 10, wait=20)
    waiting(orders, 1)
    clock.advance(20)
    assert empty.result() == []


def test_a_consumer_acknowledges_what_its_handler_did_and_gives_back_what_it_failed_on(
    broker: leveret.Broker, orders: leveret.Queue
) -> None:
    handled: SimpleQueue[object] = SimpleQueue()

    @orders.worker(concurrency=2)
    def process(message: leveret.Message) -> None:
        handled.put(message.body)
        if message.body == "panic":
            raise ZeroDivisionError

    orders.send_many(["fine", "panic"])
    assert {handled.get(timeout=PATIENCE_S) for _ in range(2)} == {"fine", "panic"}
    process.stop()
    stats = orders.stats()
    assert (stats.acked, stats.nacked, stats.backing_off) == (1, 1, 1)


def test_consumers_of_one_queue_share_its_messages(orders: leveret.Queue) -> None:
    seen: SimpleQueue[tuple[str, object]] = SimpleQueue()

    def consumer(name: str) -> Callable[[leveret.Message], None]:
        def handle(message: leveret.Message) -> None:
            seen.put((name, message.body))
            message.ack()

        return handle

    subscriptions = [orders.consume(consumer(name), prefetch=10) for name in ("one", "two")]
    orders.send_many([str(number) for number in range(10)])
    taken = [seen.get(timeout=PATIENCE_S) for _ in range(10)]
    for subscription in subscriptions:
        subscription.cancel()
    assert sorted(str(body) for _, body in taken) == [str(number) for number in range(10)]
    assert {name for name, _ in taken} == {"one", "two"}
    assert settled(orders)


# Exchanges


@pytest.fixture
def exchange(broker: leveret.Broker) -> leveret.Exchange:
    topic = broker.exchange("orders_exchange", "topic")
    for key, name in (
        ("orders.*", "all-orders"),
        ("orders.new", "new-orders"),
        ("*.urgent", "urgent-processing"),
        ("#", "audit-log"),
    ):
        topic.bind(broker.queue(name), key)
    return topic


@pytest.mark.parametrize(
    ("routing_key", "reached"),
    [
        ("orders.new", {"all-orders", "new-orders", "audit-log"}),
        ("orders.urgent", {"all-orders", "urgent-processing", "audit-log"}),
        ("orders.cancelled", {"all-orders", "audit-log"}),
        ("orders.new.urgent", {"audit-log"}),
        ("payments", {"audit-log"}),
    ],
)
def test_a_topic_reaches_the_queues_whose_pattern_matches(
    broker: leveret.Broker, exchange: leveret.Exchange, routing_key: str, reached: set[str]
) -> None:
    exchange.publish(routing_key, ORDER)
    assert {queue.name for queue in broker.queues() if len(queue)} == reached


def test_a_direct_exchange_wants_the_exact_key(broker: leveret.Broker) -> None:
    direct = broker.exchange("direct", "direct")
    direct.bind(broker.queue("new"), "orders.new")
    direct.bind(broker.queue("any"), "orders.*")
    direct.publish("orders.new", ORDER)
    assert (len(broker.queue("new")), len(broker.queue("any"))) == (1, 0)


def test_a_fanout_reaches_every_queue_once_however_often_it_is_bound(broker: leveret.Broker) -> None:
    fanout = broker.exchange("everyone", "fanout")
    for name, key in (("one", "a"), ("one", "b"), ("two", "")):
        fanout.bind(broker.queue(name), key)
    fanout.publish("whatever", ORDER)
    assert [(queue.name, len(queue)) for queue in broker.queues()] == [("one", 1), ("two", 1)]


# Persistence


def test_stored_messages_come_back_by_priority_and_age_and_only_when_visible(
    home: Home, clock: leveret.ManualClock
) -> None:
    orders = home.broker.queue("orders", max_priority=10)
    orders.send("low", priority=1)
    orders.send("high", priority=9)
    orders.send("low too", priority=1)
    orders.send("hidden", priority=9, delay=100)
    orders = home.crash().queue("orders")
    assert bodies(orders.receive(10)) == ["high", "low", "low too"]
    clock.advance(100)
    assert "hidden" in bodies(orders.receive(10))


def test_the_settings_of_a_queue_are_stored_with_it(home: Home) -> None:
    settings: dict[str, Any] = {
        "visibility_timeout": 7,
        "max_deliveries": 2,
        "retention": 99,
        "dead_letter": "dlq",
        "max_length": 5,
    }
    declared = home.broker.queue("orders", **settings).arguments
    assert home.crash().queue("orders").arguments == declared


def test_a_deleted_message_stays_deleted(home: Home) -> None:
    orders = home.broker.queue("orders")
    orders.send_many(["done", "left"])
    orders.receive()[0].ack()
    home.broker.flush()
    assert bodies(home.crash().queue("orders").receive(10)) == ["left"]


def test_many_queues_live_side_by_side(broker: leveret.Broker) -> None:
    queues = broker.declare_queues([f"queue-{number}" for number in range(1_000)])
    for number in (0, 500, 999):
        queues[number].send(number)
    assert {queue.name: len(queue) for queue in broker.queues() if len(queue)} == {
        "queue-0": 1,
        "queue-500": 1,
        "queue-999": 1,
    }
