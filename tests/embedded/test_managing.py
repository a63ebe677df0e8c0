"""Looking into queues, and changing them as operators do."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

import leveret

Reopen = Callable[[], leveret.Broker]


@pytest.fixture
def orders(broker: leveret.Broker) -> leveret.Queue:
    return broker.queue("orders", max_priority=5, dead_letter="dlq")


def bodies(messages: list[leveret.Peeked]) -> list[object]:
    return [message.body for message in messages]


@pytest.mark.everywhere
def test_browsing_takes_nothing(orders: leveret.Queue) -> None:
    orders.send_many(["a", "b"])
    assert bodies(orders.browse()) == bodies(orders.browse()) == ["a", "b"]
    assert not hasattr(orders.browse()[0], "ack")
    assert [message.deliveries for message in orders.receive(2)] == [1, 1]


@pytest.mark.everywhere
def test_browsing_by_state(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    for body, delay in (("leased", None), ("backing off", None), ("ready", None), ("later", 60)):
        orders.send(body, delay=delay)
    _, failed = orders.receive(2)
    failed.nack(delay=5)
    found = {state: bodies(orders.browse(state=state)) for state in ("ready", "leased", "backing-off", "scheduled")}
    assert found == {
        "ready": ["ready"],
        "leased": ["leased"],
        "backing-off": ["backing off"],
        "scheduled": ["later"],
    }
    (later,) = orders.scheduled()
    assert later.due_at == later.enqueued_at + timedelta(seconds=60)


def test_browsing_by_conditions(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    first = orders.send({"city": "Bern"}, priority=1, headers={"kind": "new"})
    clock.advance(10)
    second = orders.send({"city": "Rome"}, priority=3, group="g")
    since = orders.browse(message_ids=[second])[0].enqueued_at
    assert [message.id for message in orders.browse(headers={"kind": "new"})] == [first]
    assert [message.id for message in orders.browse(contains="Rome")] == [second]
    assert [message.id for message in orders.browse(priority_min=2)] == [second]
    assert [message.id for message in orders.browse(since=since)] == [second]
    assert [message.id for message in orders.browse(until=since.timestamp())] == [first]
    assert [message.id for message in orders.browse(group="g")] == [second]
    with pytest.raises(leveret.InvalidArgument, match="unknown condition"):
        orders.browse(**cast(Any, {"colour": "red"}))
    with pytest.raises(leveret.InvalidArgument, match="time zone"):
        orders.browse(since=since.replace(tzinfo=None))
    with pytest.raises(leveret.InvalidArgument, match="state"):
        orders.browse(state="lost")


def test_browsing_goes_on_over_its_steps(orders: leveret.Queue) -> None:
    orders.send_many([str(number) for number in range(1_200)])
    assert bodies(orders.browse(1_200)) == [str(number) for number in range(1_200)]
    assert bodies(orders.browse(10, contains="1199")) == ["1199"]
    with pytest.raises(leveret.InvalidArgument, match="1 to 10000"):
        orders.browse(0)


def test_a_scheduled_message_can_be_cancelled(reopen: Reopen, clock: leveret.ManualClock) -> None:
    orders = reopen().queue("orders")
    now, later = orders.send("now"), orders.send("later", delay=60)
    assert orders.cancel(later)
    assert not orders.cancel(later)
    assert not orders.cancel(now)
    assert not orders.cancel("nonsense")
    orders = reopen().queue("orders")
    clock.advance(60)
    assert [message.body for message in orders.receive(10)] == ["now"]


@pytest.mark.everywhere
def test_purging_leaves_what_is_leased(orders: leveret.Queue) -> None:
    orders.send_many(["leased", "a", "b"])
    (leased,) = orders.receive()
    assert orders.purge() == 2
    leased.ack()
    assert orders.stats().ready == 0


def test_a_paused_queue_takes_and_gives_nothing_out_even_after_a_restart(reopen: Reopen) -> None:
    orders = reopen().queue("orders")
    orders.pause()
    orders.send("x")
    orders = reopen().queue("orders")
    assert (orders.receive(), orders.stats().paused) == ([], True)
    orders.resume()
    assert len(orders.receive()) == 1


def test_a_deleted_queue_is_gone(reopen: Reopen) -> None:
    broker = reopen()
    orders = broker.queue("orders")
    orders.send("x")
    with pytest.raises(leveret.PreconditionFailed, match="not empty"):
        orders.delete(if_empty=True)
    assert orders.delete() == 1
    with pytest.raises(leveret.QueueNotFound, match="declare it again"):
        orders.send("y")
    assert [queue.name for queue in reopen().queues()] == []


@pytest.mark.everywhere
def test_figures_of_a_queue(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.send_many(["a", "b", "c", "d"], priority=2)
    orders.send("later", delay=5)
    acked, nacked, rejected = orders.receive(3)
    acked.ack()
    nacked.nack(delay=1)
    rejected.reject()
    clock.advance(0.5)
    stats = orders.stats()
    assert (stats.published, stats.delivered, stats.acked, stats.nacked) == (5, 3, 1, 1)
    assert (stats.ready, stats.leased, stats.scheduled, stats.backing_off) == (1, 0, 1, 1)
    assert (stats.depth_by_priority, stats.oldest_age, stats.ready_bytes) == ({2: 1}, 0.5, 1)
    assert stats.dead == {"rejected": 1, "expired": 0, "maxlen": 0, "delivery_limit": 0}


def test_figures_of_a_broker(broker: leveret.Broker, reopen: Reopen) -> None:
    broker.queue("a").send("x")
    broker.queue("b").send_many(["y", "zz"])
    stats = broker.stats()
    assert (stats.queues, stats.ready, stats.ready_bytes, stats.counts["published"]) == (2, 3, 4, 3)
    assert stats.journal is None
    stored = reopen()
    stored.queue("a").send_many(["x"] * 100)
    journal = stored.stats().journal
    assert journal is not None
    assert journal.frames >= 2
    assert journal.segments == 1
    assert journal.log_bytes > 100


def test_policies_change_queues_that_exist(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders")
    broker.policy("short", "^ord", {"message-ttl": 1000}, priority=1, apply_to="queues")
    orders.send("x")
    clock.advance(1)
    assert len(orders) == 0
    broker.delete_policy("short")
    orders.send("y")
    clock.advance(1)
    assert len(orders) == 1
    with pytest.raises(leveret.InvalidArgument, match="not a recognised policy setting"):
        broker.policy("wrong", ".*", {"colour": 1})


def test_queues_are_listed_by_name(broker: leveret.Broker) -> None:
    broker.declare_queues(["b", "a"])
    assert [queue.name for queue in broker.queues()] == ["a", "b"]
    assert repr(broker.queue("a")) == "<Queue 'a'>"


@pytest.mark.everywhere
def test_printing_a_message_does_not_print_its_body(orders: leveret.Queue) -> None:
    orders.send("secret")
    (message,) = orders.receive()
    assert message.id in repr(message)
    assert "secret" not in repr(message)


@pytest.mark.everywhere
def test_a_queue_has_a_name_for_people_and_the_time_of_its_declaration(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    made = broker.queue("orders-eu", display_name="Orders, Europe")
    since = made.created_at
    assert since is not None
    assert made.display_name == "Orders, Europe"
    clock.advance(5)
    again = broker.queue("orders-eu")
    assert (again.created_at, again.display_name) == (since, "Orders, Europe")
    later = broker.queue("later")
    assert (later.created_at, later.display_name) == (since + timedelta(seconds=5), None)
    with pytest.raises(leveret.PreconditionFailed, match="x-display-name"):
        broker.queue("orders-eu", display_name="Others")


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31m", "n" * 256, "\udc80"])
def test_a_name_for_people_can_be_printed(broker: leveret.Broker, name: str) -> None:
    with pytest.raises(leveret.InvalidArgument, match="control character"):
        broker.queue("orders", display_name=name)


def test_the_time_of_a_declaration_survives_restarts(reopen: Reopen, clock: leveret.ManualClock) -> None:
    broker = reopen()
    since = broker.queue("orders", display_name="Orders").created_at
    clock.advance(60)
    broker.queue("orders").pause()
    for _ in range(2):  # from the log, and from a checkpoint
        found = reopen().queue("orders")
        assert (found.created_at, found.display_name) == (since, "Orders")
