"""The Java queue: its list of tests, from the value object over delivery guarantees to the log and the stress tests."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

import leveret
from tests.embedded.conftest import SMALL, Calls
from tests.seeds.conftest import Home, bodies, settled

Waiting = Callable[[leveret.Queue, int], None]
VISIBILITY_S = 30
PRODUCERS = CONSUMERS = 5


@pytest.fixture
def queue(broker: leveret.Broker) -> leveret.Queue:
    return broker.queue("orders", visibility_timeout=VISIBILITY_S, max_deliveries=3, dead_letter="dead", backoff="none")


# MessageTest


def test_message_cannot_be_changed(queue: leveret.Queue) -> None:
    queue.send("Order1")
    (message,) = queue.receive()
    for name in ("id", "body", "data", "deliveries", "priority"):
        with pytest.raises(AttributeError):
            setattr(message, name, "other")
    assert message.body == "Order1"


def test_message_ids_are_unique_among_threads(queue: leveret.Queue, calls: Calls) -> None:
    senders = [calls.start(queue.send_many, [b"x"] * 250) for _ in range(8)]
    assert len({sent for sender in senders for sent in sender.result()}) == 8 * 250


# MessageQueueTest


def test_consume_blocks_until_a_publish(queue: leveret.Queue, calls: Calls, waiting: Waiting) -> None:
    consumed = calls.start(queue.receive, 1, wait=60)
    waiting(queue, 1)
    assert not consumed.done()
    queue.send("Order1")
    assert bodies(consumed.result()) == ["Order1"]


def test_acknowledge_ends_the_lifecycle(queue: leveret.Queue) -> None:
    queue.send("Order1")
    queue.ack(queue.receive()[0].receipt)
    assert settled(queue)


def test_a_receipt_is_of_one_delivery_and_not_of_the_message(queue: leveret.Queue) -> None:
    queue.send("Order1")
    (first,) = queue.receive()
    queue.nack(first.receipt)
    (second,) = queue.receive()
    assert (first.id, first.receipt == second.receipt) == (second.id, False)
    with pytest.raises(leveret.InvalidReceipt):
        queue.ack(first.receipt)
    queue.ack(second.receipt)


@pytest.mark.parametrize("receipt", ["", "abc-123", "A" * 48])
def test_an_invalid_receipt_is_refused(queue: leveret.Queue, receipt: str) -> None:
    with pytest.raises(leveret.InvalidReceipt):
        queue.ack(receipt)


# QueueManagerTest


def test_a_name_means_the_same_queue_every_time(broker: leveret.Broker, calls: Calls) -> None:
    made = [calls.start(broker.queue, "shared") for _ in range(8)]
    for each in made:
        each.result().send("x")
    assert [(each.name, len(each)) for each in broker.queues()] == [("shared", 8)]


def test_names_are_apart(broker: leveret.Broker) -> None:
    broker.queue("one").send("x")
    assert broker.queue("two").receive() == []


def test_a_deleted_queue_is_not_found(broker: leveret.Broker, queue: leveret.Queue) -> None:
    queue.delete()
    for verb in (lambda: queue.send("x"), queue.receive, queue.stats, queue.delete):
        with pytest.raises(leveret.QueueNotFound):
            verb()
    assert "orders" not in {each.name for each in broker.queues()}


def test_a_queue_that_was_never_made_is_not_found(broker: leveret.Broker, queue: leveret.Queue) -> None:
    with pytest.raises(leveret.QueueNotFound):
        broker.exchange("exchange").bind("missing", "key")
    with pytest.raises(leveret.QueueNotFound):
        queue.redrive(to="missing")


def test_the_dead_letter_queue_is_made_with_its_source(broker: leveret.Broker, queue: leveret.Queue) -> None:
    assert [each.name for each in broker.queues()] == ["dead", "orders"]


def test_the_dead_letter_queue_outlives_its_source(broker: leveret.Broker, queue: leveret.Queue) -> None:
    queue.send("Order1")
    queue.receive()[0].reject()
    queue.delete()
    assert bodies(broker.queue("dead").receive()) == ["Order1"]


def test_an_existing_dead_letter_queue_is_kept_as_it_is(broker: leveret.Broker) -> None:
    broker.queue("dead", visibility_timeout=99).send("earlier")
    broker.queue("orders", dead_letter="dead")
    assert broker.queue("dead").arguments["x-visibility-timeout"] == 99_000
    assert len(broker.queue("dead")) == 1


# DeliveryGuaranteesTest


def test_a_timeout_requeues_and_counts(queue: leveret.Queue, clock: leveret.ManualClock) -> None:
    queue.send("Order1")
    queue.receive()
    clock.advance(VISIBILITY_S)
    assert [each.deliveries for each in queue.receive()] == [2]
    assert queue.stats().timed_out == 1


def test_nack_requeues_at_once_where_no_backoff_is_wanted(queue: leveret.Queue) -> None:
    queue.send("Order1")
    queue.receive()[0].nack()
    assert [each.deliveries for each in queue.receive()] == [2]


@pytest.mark.parametrize("how", ["nack", "timeout"])
def test_the_retry_limit_ends_in_the_dead_letter_queue(
    broker: leveret.Broker, queue: leveret.Queue, clock: leveret.ManualClock, how: str
) -> None:
    sent = queue.send("Order1")
    for _ in range(3):
        (message,) = queue.receive()
        if how == "nack":
            message.nack()
        else:
            clock.advance(VISIBILITY_S)
    assert settled(queue)
    (dead,) = broker.queue("dead").receive()
    assert (dead.id, dead.body) == (sent, "Order1")
    dead.ack()


def test_without_a_dead_letter_queue_it_is_dropped(broker: leveret.Broker) -> None:
    queue = broker.queue("plain", max_deliveries=2, backoff="none")
    queue.send("Order1")
    for _ in range(2):
        queue.receive()[0].nack()
    assert settled(queue)


def test_closing_stops_every_thread_and_wakes_who_waits(
    broker: leveret.Broker, queue: leveret.Queue, calls: Calls, waiting: Waiting
) -> None:
    consumed = calls.start(queue.receive, 1, wait=60)
    waiting(queue, 1)
    broker.close()
    with pytest.raises(leveret.BrokerClosed):
        consumed.result()


# WalTest, PersistenceTest


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_published_messages_survive(home: Home, how: str) -> None:
    home.broker.queue("orders").send_many(["Order1", "Order2"])
    assert bodies(getattr(home, how)().queue("orders").receive(10)) == ["Order1", "Order2"]


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_what_was_in_flight_is_requeued_in_its_place(home: Home, how: str) -> None:
    orders = home.broker.queue("orders")
    orders.send_many(["Order1", "Order2"])
    orders.receive()
    home.broker.flush()
    messages = getattr(home, how)().queue("orders").receive(10)
    assert [(each.body, each.deliveries, each.redelivered) for each in messages] == [
        ("Order1", 2, True),
        ("Order2", 1, False),
    ]


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_the_retry_count_is_preserved(home: Home, how: str) -> None:
    orders = home.broker.queue("orders", max_deliveries=3, dead_letter="dead", backoff="none")
    orders.send("Order1")
    for _ in range(2):
        orders.receive()[0].nack()
    home.broker.flush()
    orders = getattr(home, how)().queue("orders")
    (last,) = orders.receive()
    assert last.deliveries == 3
    last.nack()
    assert settled(orders)
    assert len(home.broker.queue("dead")) == 1


def test_acknowledged_and_dead_messages_do_not_return(home: Home) -> None:
    orders = home.broker.queue("orders", dead_letter="dead")
    orders.send_many(["acked", "rejected"])
    acked, rejected = orders.receive(2)
    acked.ack()
    rejected.reject()
    broker = home.restart()
    assert broker.queue("orders").receive(10) == []
    assert bodies(broker.queue("dead").receive(10)) == ["rejected"]


def test_a_torn_end_of_the_log_is_skipped(home: Home) -> None:
    home.broker.queue("orders").send("Order1")
    home.broker.close()
    with max(home.path.rglob("*.log")).open("ab") as log:
        log.write(b"half a rec")
    assert bodies(home.restart().queue("orders").receive(10)) == ["Order1"]


def test_the_log_does_not_grow_over_restarts(tmp_path: Path, clock: leveret.ManualClock) -> None:
    with leveret.open(str(tmp_path), clock=clock, segment_bytes=4096, **SMALL) as broker:
        broker.queue("kept").send("Order1")
    for _ in range(3):
        with leveret.open(str(tmp_path), clock=clock, segment_bytes=4096, **SMALL) as broker:
            orders = broker.queue("orders")
            for _ in range(50):
                orders.send(b"x" * 1000)
                orders.receive()[0].ack()
            while (journal := broker.stats().journal) is not None and journal.log_bytes > 20_000:
                clock.advance(1)
                os.sched_yield()
    with leveret.open(str(tmp_path), clock=clock, **SMALL) as broker:
        assert bodies(broker.queue("kept").receive(10)) == ["Order1"]


def test_without_a_directory_nothing_is_kept(clock: leveret.ManualClock) -> None:
    with leveret.open(clock=clock) as broker:
        broker.queue("orders").send("Order1")
    with leveret.open(clock=clock) as broker:
        assert broker.queues() == []


# ConcurrentStressTest, DeliveryGuaranteesStressTest


def produce(queue: leveret.Queue, calls: Calls, each: int) -> "list[Future[list[str | None]]]":
    starts = range(0, PRODUCERS * each, each)
    return [calls.start(queue.send_many, [str(n) for n in range(start, start + each)]) for start in starts]


def consume(
    queue: leveret.Queue,
    calls: Calls,
    total: int,
    settle: Callable[[leveret.Message], bool],
    idle: Callable[[], object] = os.sched_yield,
) -> list[str]:
    """Take with several threads until `settle` has said so many times that a message is done; give those."""
    done: list[str] = []

    def work() -> None:
        while len(done) < total:
            messages = queue.receive(10)
            done.extend(str(message.body) for message in messages if settle(message))
            if not messages:
                idle()

    for consumer in [calls.start(work) for _ in range(CONSUMERS)]:
        consumer.result()
    return done


def ack(message: leveret.Message) -> bool:
    message.ack()
    return True


def test_every_message_under_sustained_load_is_consumed_exactly_once(queue: leveret.Queue, calls: Calls) -> None:
    producers = produce(queue, calls, 2_000)
    done = consume(queue, calls, PRODUCERS * 2_000, ack)
    assert sum(len(producer.result()) for producer in producers) == PRODUCERS * 2_000
    assert sorted(done, key=int) == [str(n) for n in range(PRODUCERS * 2_000)]
    assert settled(queue)


def test_a_backlog_is_drained(queue: leveret.Queue, calls: Calls) -> None:
    queue.send_many([b"%d" % n for n in range(20_000)])
    done = consume(queue, calls, 20_000, ack)
    assert len(set(done)) == 20_000
    assert settled(queue)


def test_concurrent_nacks_lose_and_double_nothing(queue: leveret.Queue, calls: Calls) -> None:
    def second_time_lucky(message: leveret.Message) -> bool:
        if message.redelivered:
            return ack(message)
        message.nack()
        return False

    produce(queue, calls, 300)
    done = consume(queue, calls, PRODUCERS * 300, second_time_lucky)
    assert sorted(done, key=int) == [str(n) for n in range(PRODUCERS * 300)]
    stats = queue.stats()
    assert (stats.acked, stats.nacked) == (PRODUCERS * 300, PRODUCERS * 300)


def test_timeouts_beside_consumers_lose_and_double_nothing(
    broker: leveret.Broker, calls: Calls, clock: leveret.ManualClock
) -> None:
    queue = broker.queue("slow", visibility_timeout=VISIBILITY_S)

    def forget_the_first_time(message: leveret.Message) -> bool:
        clock.advance(0.5)
        if not message.redelivered:
            return False
        try:
            return ack(message)
        except leveret.InvalidReceipt:
            return False

    produce(queue, calls, 200)
    done = consume(queue, calls, PRODUCERS * 200, forget_the_first_time, idle=lambda: clock.advance(1))
    assert sorted(done, key=int) == [str(n) for n in range(PRODUCERS * 200)]
    assert queue.stats().timed_out >= PRODUCERS * 200
    assert settled(queue)


def test_dead_letters_under_load(broker: leveret.Broker, queue: leveret.Queue, calls: Calls) -> None:
    dead = broker.queue("dead")

    def refuse_odd_ones(message: leveret.Message) -> bool:
        if int(str(message.body)) % 2:
            message.nack()
            return message.deliveries == 3
        return ack(message)

    produce(queue, calls, 200)
    consume(queue, calls, PRODUCERS * 200, refuse_odd_ones)
    assert settled(queue)
    assert sorted(int(str(body)) for body in bodies(dead.receive(10_000))) == list(range(1, PRODUCERS * 200, 2))
