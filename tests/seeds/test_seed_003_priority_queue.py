"""The priority queue: ten levels, visibility, dead letters, delays, idempotence, figures, batches, large payloads."""

import os
from collections.abc import Callable
from queue import SimpleQueue

import pytest

import leveret
from tests.embedded.conftest import Calls
from tests.seeds.conftest import Home, bodies, settled
from tests.waiting import PATIENCE_S

Waiting = Callable[[leveret.Queue, int], None]
DAY_S = 24 * 3600
MAX_RECEIVES = 5
PAYLOAD = {"order_id": "ORD-12345", "customer_id": "CUST-98765", "items": ["a", "b"], "total": 299.99}


@pytest.fixture
def orders(broker: leveret.Broker) -> leveret.Queue:
    return broker.queue(
        "orders",
        max_priority=10,
        visibility_timeout=30,
        max_deliveries=MAX_RECEIVES,
        dead_letter="orders-dlq",
        retention=7 * DAY_S,
        dedup_window=DAY_S,
        backoff="none",
    )


# Enqueue and dequeue


def test_an_enqueued_message_comes_out_with_its_facts(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    sent = orders.send(PAYLOAD, priority=8, headers={"correlationId": "corr-xyz-789"})
    (message,) = orders.receive(1, visibility_timeout=30)
    assert (message.id, message.priority, message.body, message.deliveries) == (sent, 8, PAYLOAD, 1)
    assert (message.content_type, message.headers) == ("application/json", {"correlationId": "corr-xyz-789"})
    assert message.enqueued_at.timestamp() * 1000 == clock.now_ms()


def test_dequeue_goes_from_the_highest_level_down(orders: leveret.Queue) -> None:
    for priority in (3, 10, 1, 7, 5, 9, 2, 8, 4, 6):
        orders.send(priority, priority=priority)
    assert bodies(orders.receive(10)) == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]


def test_within_a_level_the_oldest_comes_first(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    for number in range(20):
        orders.send(number, priority=10 if number % 2 else 5)
        clock.advance(0.001)
    assert bodies(orders.receive(20)) == [*range(1, 20, 2), *range(0, 20, 2)]


def test_an_empty_queue_gives_nothing(orders: leveret.Queue) -> None:
    assert orders.receive() == []


@pytest.mark.parametrize("priority", [-1, 256, 2.5, "high"])
def test_a_priority_that_is_none_is_refused(orders: leveret.Queue, priority: int) -> None:
    with pytest.raises(leveret.InvalidArgument, match="priority"):
        orders.send(PAYLOAD, priority=priority)


def test_a_batch_is_filled_level_by_level(orders: leveret.Queue) -> None:
    orders.send_many(["low"] * 8, priority=1)
    orders.send_many(["high"] * 4, priority=10)
    assert bodies(orders.receive(10)) == ["high"] * 4 + ["low"] * 6
    assert bodies(orders.receive(10)) == ["low"] * 2


def test_a_batch_is_enqueued_in_one_go_with_a_priority_each(orders: leveret.Queue) -> None:
    sent = orders.send_many([leveret.Outgoing(number, priority=number) for number in range(1, 11)])
    assert [message.id for message in orders.receive(10)] == sent[::-1]


def test_consumers_do_not_get_the_same_message(orders: leveret.Queue, calls: Calls) -> None:
    orders.send_many(range(100))
    taken = [calls.start(orders.receive, 10) for _ in range(10)]
    assert len({message.id for each in taken for message in each.result()}) == 100


def test_no_level_starves_where_fairness_is_asked_for(broker: leveret.Broker) -> None:
    fair = broker.queue("fair", max_priority=10, priority_mode="weighted")
    fair.send_many(["high"] * 200, priority=10)
    fair.send_many(["low"] * 10, priority=1)
    assert "low" in bodies(fair.receive(100))


# Acknowledgement and visibility


def test_a_receipt_handle_acknowledges(orders: leveret.Queue) -> None:
    orders.send(PAYLOAD)
    receipt = orders.receive()[0].receipt
    orders.ack(receipt)
    assert settled(orders)
    with pytest.raises(leveret.InvalidReceipt):
        orders.ack(receipt)


def test_the_visibility_of_a_taken_message_is_changed(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send(PAYLOAD)
    receipt = orders.receive()[0].receipt
    clock.advance(29)
    orders.extend(receipt, 60)
    clock.advance(59)
    assert orders.receive() == []
    clock.advance(1)
    assert [message.deliveries for message in orders.receive()] == [2]


def test_a_visibility_of_nothing_gives_it_back_at_once(orders: leveret.Queue) -> None:
    orders.send(PAYLOAD)
    orders.extend(orders.receive()[0].receipt, 0)
    assert len(orders.receive()) == 1


def test_what_timed_out_keeps_its_level(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send("urgent", priority=10)
    orders.receive()
    orders.send("later", priority=5)
    clock.advance(30)
    assert bodies(orders.receive(2)) == ["urgent", "later"]
    assert orders.stats().timed_out == 1


# Dead letters


def test_after_the_last_allowed_receive_a_message_is_a_dead_letter(
    broker: leveret.Broker, orders: leveret.Queue, clock: leveret.ManualClock
) -> None:
    sent = orders.send(PAYLOAD, priority=8)
    for count in range(1, MAX_RECEIVES + 1):
        assert [message.deliveries for message in orders.receive()] == [count]
        clock.advance(30)
    assert orders.receive() == []
    (dead,) = broker.queue("orders-dlq").receive()
    assert (dead.id, dead.body) == (sent, PAYLOAD)
    assert dead.headers["x-first-death-queue"] == "orders"
    assert dead.headers["x-first-death-reason"] == "delivery_limit"


# Delay


def test_a_scheduled_message_joins_its_level_when_its_time_comes(
    orders: leveret.Queue, clock: leveret.ManualClock
) -> None:
    orders.send("planned", priority=9, delay=60)
    orders.send("now", priority=1)
    assert [peeked.due_at is not None for peeked in orders.scheduled()] == [True]
    clock.advance(60)
    assert bodies(orders.receive(2)) == ["planned", "now"]


def test_a_queue_may_delay_everything(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    slow = broker.queue("slow", delay=5)
    slow.send(PAYLOAD)
    assert slow.receive() == []
    clock.advance(5)
    assert bodies(slow.receive()) == [PAYLOAD]


# Exactly-once effects


def test_an_idempotency_key_enqueues_once_within_a_day(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    first = orders.send(PAYLOAD, dedup_id="key")
    orders.receive()[0].ack()
    clock.advance(DAY_S - 1)
    assert orders.send(PAYLOAD, dedup_id="key") == first
    assert len(orders) == 0
    clock.advance(1)
    assert orders.send(PAYLOAD, dedup_id="key") != first
    assert len(orders) == 1


def test_an_idempotency_key_is_remembered_over_a_crash(home: Home) -> None:
    first = home.broker.queue("orders", dedup_window=DAY_S).send(PAYLOAD, dedup_id="key")
    orders = home.crash().queue("orders")
    assert orders.send(PAYLOAD, dedup_id="key") == first
    assert len(orders) == 1


def test_keys_of_senders_in_a_hurry_still_enqueue_once(orders: leveret.Queue, calls: Calls) -> None:
    sent = [calls.start(orders.send, PAYLOAD, dedup_id="key") for _ in range(16)]
    assert len({each.result() for each in sent}) == 1
    assert len(orders) == 1


def test_a_consumer_that_remembers_skips_what_it_has_processed(
    orders: leveret.Queue, clock: leveret.ManualClock
) -> None:
    processed: SimpleQueue[object] = SimpleQueue()

    def process(message: leveret.Message) -> None:
        processed.put(message.body)
        message.nack(delay=DAY_S)  # the acknowledgement that follows comes too late

    worker = orders.worker(concurrency=1, idempotent=True)(process)
    orders.send("once")
    assert processed.get(timeout=PATIENCE_S) == "once"
    worker.stop()
    assert orders.stats().backing_off == 1
    clock.advance(DAY_S)
    worker = orders.worker(concurrency=1, idempotent=True)(process)
    while not orders.stats().acked:
        os.sched_yield()
    worker.stop()
    assert processed.empty()


# Figures


def test_figures_by_priority_age_flight_and_dead_letters(
    broker: leveret.Broker, orders: leveret.Queue, clock: leveret.ManualClock
) -> None:
    for priority, count in ((10, 4), (9, 3), (8, 2), (1, 1)):
        orders.send_many([PAYLOAD] * count, priority=priority)
    clock.advance(27)
    orders.receive()
    orders.receive()[0].reject()
    clock.advance(2)
    stats = orders.stats()
    assert (stats.ready, stats.leased, len(broker.queue("orders-dlq"))) == (8, 1, 1)
    assert stats.depth_by_priority == {10: 2, 9: 3, 8: 2, 1: 1}
    assert stats.oldest_age == 29


def test_the_age_is_of_the_oldest_message_of_all_levels(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send("old", priority=1)
    clock.advance(100)
    orders.send("young", priority=10)
    assert orders.stats().oldest_age == 100
    orders.receive(2)
    assert orders.stats().oldest_age is None


# Large payloads


@pytest.mark.parametrize(("size_bytes", "outside"), [(256 * 1024, 0), (256 * 1024 + 1, 1)])
def test_a_payload_over_the_limit_is_kept_in_the_object_store(home: Home, size_bytes: int, outside: int) -> None:
    home.broker.queue("orders").send(b"x" * size_bytes, priority=3)
    assert len(os.listdir(home.path / "blobs")) == outside
    (message,) = home.crash().queue("orders").receive()
    assert len(message.data) == size_bytes


def test_a_large_payload_goes_when_its_message_is_done(home: Home, clock: leveret.ManualClock) -> None:
    orders = home.broker.queue("orders")
    orders.send(b"x" * 300_000)
    orders.receive()[0].ack()
    while os.listdir(home.path / "blobs"):
        clock.advance(1)
        os.sched_yield()
    assert settled(orders)


def test_a_queue_may_limit_the_size_of_messages(broker: leveret.Broker) -> None:
    small = broker.queue("small", max_message_size=256 * 1024)
    with pytest.raises(leveret.MessageTooLarge):
        small.send(b"x" * (256 * 1024 + 1))
    assert len(small) == 0


# Long poll


def test_a_long_poll_gets_a_message_as_soon_as_there_is_one(
    orders: leveret.Queue, calls: Calls, waiting: Waiting, clock: leveret.ManualClock
) -> None:
    polled = calls.start(orders.receive, 1, wait=20)
    waiting(orders, 1)
    clock.advance(19)
    orders.send(PAYLOAD, priority=1)
    assert bodies(polled.result()) == [PAYLOAD]
