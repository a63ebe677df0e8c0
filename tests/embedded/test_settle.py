"""What becomes of a message that was taken: acknowledged, given back, kept longer, rejected, or forgotten."""

from datetime import timedelta

import pytest

import leveret


def bodies(messages: list[leveret.Message]) -> list[object]:
    return [message.body for message in messages]


@pytest.mark.everywhere
def test_a_message_comes_back_when_its_time_is_over(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders", visibility_timeout=30)
    orders.send("again")
    orders.receive()
    clock.advance(29.999)
    assert orders.receive() == []
    clock.advance(0.001)
    (message,) = orders.receive()
    assert (message.body, message.deliveries, message.redelivered) == ("again", 2, True)


@pytest.mark.everywhere
def test_extend_keeps_a_message_longer(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders", visibility_timeout=30)
    orders.send("slow")
    (message,) = orders.receive()
    clock.advance(20)
    message.extend(60)
    clock.advance(59)
    assert orders.receive() == []
    message.ack()
    clock.advance(2)
    assert orders.receive() == []


@pytest.mark.everywhere
def test_nack_without_delay_backs_off_by_powers_of_two(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders")
    orders.send("flaky")
    for wait_s in (2, 4, 8):
        orders.receive()[0].nack()
        clock.advance(wait_s - 0.001)
        assert orders.receive() == []
        clock.advance(0.001)
    assert bodies(orders.receive()) == ["flaky"]


@pytest.mark.everywhere
def test_nack_with_a_delay_of_its_own(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders")
    orders.send("soon")
    orders.receive()[0].nack(delay=5)
    clock.advance(5)
    assert bodies(orders.receive()) == ["soon"]


@pytest.mark.everywhere
def test_a_given_back_message_returns_to_its_place(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many(["first", "second"])
    orders.receive()[0].nack(delay=0)
    assert bodies(orders.receive(2)) == ["first", "second"]


@pytest.mark.everywhere
def test_listed_delays_and_none(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    listed = broker.queue("listed", backoff=[1, 10])
    at_once = broker.queue("at-once", backoff="none")
    for queue in (listed, at_once):
        queue.send("x")
        queue.receive()[0].nack()
    assert len(at_once) == 1
    clock.advance(1)
    listed.receive()[0].nack()
    clock.advance(9.999)
    assert len(listed) == 0
    clock.advance(0.001)
    assert len(listed) == 1


@pytest.mark.everywhere
def test_failures_end_among_the_dead_letters(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", max_deliveries=3, dead_letter="orders-dlq", backoff="none")
    sent = orders.send({"order": 1})
    for _ in range(3):
        orders.receive()[0].nack()
    assert orders.receive() == []
    (dead,) = broker.queue("orders-dlq").receive()
    assert (dead.id, dead.body) == (sent, {"order": 1})
    assert dead.headers["x-first-death-queue"] == "orders"
    assert dead.headers["x-first-death-reason"] == "delivery_limit"


@pytest.mark.everywhere
def test_three_tries_are_the_default_when_there_is_a_place_for_dead_letters(broker: leveret.Broker) -> None:
    assert broker.queue("orders", dead_letter="dlq").arguments["x-max-receive-count"] == 3
    assert "x-max-receive-count" not in broker.queue("dlq").arguments


@pytest.mark.everywhere
def test_reject_makes_a_dead_letter_at_once(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", dead_letter="dlq")
    orders.send("bad")
    orders.receive()[0].reject()
    assert broker.queue("dlq").receive()[0].headers["x-first-death-reason"] == "rejected"


@pytest.mark.everywhere
def test_settling_twice_is_refused(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("once")
    (message,) = orders.receive()
    message.ack()
    for verb in (message.ack, message.nack, message.reject, lambda: message.extend(1)):
        with pytest.raises(leveret.InvalidReceipt, match=r"has ended|not leased"):
            verb()


@pytest.mark.everywhere
def test_a_late_ack_does_not_take_the_message_from_its_next_holder(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    orders = broker.queue("orders", visibility_timeout=10)
    orders.send("mine")
    (late,) = orders.receive()
    clock.advance(10)
    (holder,) = orders.receive()
    with pytest.raises(leveret.InvalidReceipt):
        late.ack()
    holder.ack()
    assert orders.stats().acked == 1


@pytest.mark.everywhere
def test_ack_many_acknowledges_what_it_can_and_names_the_rest(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    orders = broker.queue("orders", visibility_timeout=10)
    orders.send_many(["late", "in time"])
    late = orders.receive()
    clock.advance(5)
    in_time = orders.receive()
    clock.advance(5)
    with pytest.raises(leveret.InvalidReceipt, match="1 of 2"):
        orders.ack_many([*late, *in_time])
    assert bodies(orders.receive(10)) == ["late"]


@pytest.mark.everywhere
def test_ack_many_refuses_messages_of_another_queue(broker: leveret.Broker) -> None:
    one, other = broker.queue("one"), broker.queue("other")
    one.send("a")
    other.send("b")
    mixed = one.receive() + other.receive()
    with pytest.raises(leveret.InvalidReceipt, match="not of queue 'one'"):
        one.ack_many(mixed)
    assert one.stats().leased == 1


def test_negative_times_are_refused(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("x")
    (message,) = orders.receive()
    with pytest.raises(leveret.InvalidArgument, match="delay"):
        message.nack(delay=-1)
    with pytest.raises(leveret.InvalidArgument, match="seconds"):
        message.extend(float("nan"))
    message.ack()


def test_a_message_says_until_when_it_is_hidden() -> None:
    clock = leveret.ManualClock()
    with leveret.open(clock=clock) as broker:
        queue = broker.queue("orders", visibility_timeout=30)
        queue.send(b"body")
        (message,) = queue.receive()
        assert message.visible_until == message.received_at + timedelta(seconds=30)
        message.extend(90)
        assert message.visible_until == message.received_at + timedelta(seconds=90)
        message.ack()
        assert message.visible_until is None
