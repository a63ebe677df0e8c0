"""Dead letters get another chance."""

from collections.abc import Callable
from typing import Any

import pytest

import leveret
from tests.embedded.conftest import Calls

Reopen = Callable[[], leveret.Broker]


def kill(orders: leveret.Queue, *bodies: str) -> list[str | None]:
    """Send messages that end as dead letters; give their ids."""
    sent = orders.send_many(bodies)
    for message in orders.receive(len(bodies)):
        message.reject()
    return sent


@pytest.fixture
def orders(broker: leveret.Broker) -> leveret.Queue:
    return broker.queue("orders", dead_letter="dlq")


@pytest.fixture
def dlq(broker: leveret.Broker, orders: leveret.Queue) -> leveret.Queue:
    return broker.queue("dlq")


@pytest.mark.everywhere
def test_messages_return_to_where_they_died(orders: leveret.Queue, dlq: leveret.Queue) -> None:
    sent = kill(orders, "a", "b")
    result = dlq.redrive()
    assert (result.matched, result.moved, result.skipped) == (2, 2, 0)
    back = orders.receive(10)
    assert [(message.id, message.body, message.deliveries) for message in back] == [
        (sent[0], "a", 1),
        (sent[1], "b", 1),
    ]
    assert (len(dlq), dlq.stats().moved) == (0, 2)


@pytest.mark.everywhere
def test_to_another_queue(broker: leveret.Broker, orders: leveret.Queue, dlq: leveret.Queue) -> None:
    kill(orders, "a")
    other = broker.queue("other")
    dlq.redrive(other)
    assert [message.body for message in other.receive()] == ["a"]
    with pytest.raises(leveret.QueueNotFound, match="nowhere"):
        dlq.redrive(to="nowhere")


@pytest.mark.everywhere
def test_only_what_is_meant(orders: leveret.Queue, dlq: leveret.Queue) -> None:
    kill(orders, "good 1", "bad", "good 2", "good 3")
    assert dlq.redrive(contains="good", limit=2).moved == 2
    assert [message.body for message in dlq.browse()] == ["bad", "good 3"]


@pytest.mark.everywhere
def test_a_dead_letter_is_found_by_the_id_that_it_kept(orders: leveret.Queue, dlq: leveret.Queue) -> None:
    first, second = kill(orders, "a", "b")
    assert dlq.redrive(message_ids=[first]).moved == 1
    assert dlq.discard(message_ids=[second]) == 1
    assert [message.body for message in orders.receive(10)] == ["a"]


def test_so_many_ids_at_once(dlq: leveret.Queue) -> None:
    assert dlq.redrive(message_ids=["x"] * 1_000).matched == 0
    refused: list[Any] = [["x"] * 1_001, "x", 7]
    for wrong in refused:
        with pytest.raises(leveret.InvalidArgument, match="array of at most"):
            dlq.redrive(message_ids=wrong)


@pytest.mark.everywhere
def test_a_dry_run_only_counts(orders: leveret.Queue, dlq: leveret.Queue) -> None:
    kill(orders, "a", "b")
    result = dlq.redrive(dry_run=True, contains="a")
    assert (result.matched, result.moved, len(dlq)) == (1, 0, 2)


@pytest.mark.everywhere
def test_what_never_died_and_what_has_no_room_stays(broker: leveret.Broker, orders: leveret.Queue) -> None:
    dlq = broker.queue("dlq")
    dlq.send("sent here")
    kill(orders, "a", "b")
    assert dlq.redrive().skipped == 1
    full = broker.queue("full", max_length=1, overflow="reject-publish")
    for message in orders.receive(2):
        message.reject()
    result = dlq.redrive(full)
    assert (result.moved, result.skipped) == (1, 2)
    assert len(dlq) == 2


def test_a_redrive_that_fails_again_ends(orders: leveret.Queue, dlq: leveret.Queue, calls: Calls) -> None:
    kill(orders, *(str(number) for number in range(600)))
    steps: list[int] = []

    def reject_again(result: leveret.RedriveResult) -> None:
        steps.append(result.moved)
        for message in orders.receive(1000):
            message.reject()

    assert dlq.redrive(progress=reject_again).moved == 600
    assert steps[:2] == [500, 600]
    assert len(dlq) == 600


def test_no_faster_than_asked(
    orders: leveret.Queue, dlq: leveret.Queue, calls: Calls, clock: leveret.ManualClock
) -> None:
    kill(orders, *(str(number) for number in range(30)))
    started = clock.now_ms()
    times: list[int] = []

    def note(result: leveret.RedriveResult) -> None:
        times.append(clock.now_ms() - started)

    redrive = calls.start(dlq.redrive, rate=100, progress=note)
    while not redrive.done():
        clock.advance(0.01)
    assert redrive.result().moved == 30
    assert times[2] >= 200
    with pytest.raises(leveret.InvalidArgument, match="rate"):
        dlq.redrive(rate=0)


def test_both_sides_survive_a_restart(reopen: Reopen) -> None:
    broker = reopen()
    kill(broker.queue("orders", dead_letter="dlq"), "a", "b")
    broker.queue("dlq").redrive(limit=1)
    broker = reopen()
    assert (len(broker.queue("orders")), len(broker.queue("dlq"))) == (1, 1)
