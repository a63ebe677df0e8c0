"""What the options of send and of queues do, and which are refused."""

from collections.abc import Callable
from typing import Any

import pytest

import leveret

DAY_S = 24 * 3600
Reopen = Callable[[], leveret.Broker]


def misspelt(name: str, value: object = 5) -> dict[str, Any]:
    """A keyword that type checkers would refuse."""
    return {name: value}


def bodies(messages: list[leveret.Message]) -> list[object]:
    return [message.body for message in messages]


@pytest.mark.everywhere
def test_higher_priorities_come_first(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", max_priority=10)
    for body, priority in (("low", 1), ("high", 9), ("none", None), ("high too", 9)):
        orders.send(body, priority=priority)
    assert bodies(orders.receive(10)) == ["high", "high too", "low", "none"]


@pytest.mark.everywhere
def test_a_delayed_message_appears_when_it_is_due(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders")
    orders.send("later", delay=2.0)
    orders.send("now")
    assert bodies(orders.receive(10)) == ["now"]
    clock.advance(2)
    assert bodies(orders.receive(10)) == ["later"]


def test_a_delay_of_0_goes_before_that_of_the_queue(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", delay=60)
    orders.send("later")
    orders.send("now", delay=0)
    assert [message.body for message in orders.receive(10)] == ["now"]


def test_a_delay_survives_a_restart(reopen: Reopen, clock: leveret.ManualClock) -> None:
    reopen().queue("orders").send("later", delay=60)
    orders = reopen().queue("orders")
    assert orders.receive() == []
    clock.advance(60)
    assert bodies(orders.receive()) == ["later"]


@pytest.mark.everywhere
def test_an_expired_message_is_a_dead_letter(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders", dead_letter="dlq")
    orders.send("stale", ttl=60)
    clock.advance(60)
    assert orders.receive() == []
    assert broker.queue("dlq").receive()[0].headers["x-first-death-reason"] == "expired"


@pytest.mark.everywhere
def test_the_ttl_of_a_queue(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders", ttl=10)
    orders.send("stale")
    clock.advance(10)
    assert len(orders) == 0
    assert orders.stats().expired == 1


@pytest.mark.everywhere
def test_messages_older_than_the_retention_go_without_a_trace(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    orders = broker.queue("orders", dead_letter="dlq")
    orders.send("forgotten")
    clock.advance(14 * 24 * 3600)
    assert (len(orders), len(broker.queue("dlq"))) == (0, 0)


def test_retention_counts_from_when_a_message_is_due(reopen: Reopen, clock: leveret.ManualClock) -> None:
    options: dict[str, Any] = {"dead_letter": "dlq", "retention": 14 * DAY_S}
    reopen().queue("orders", **options).send("in a month", delay=30 * DAY_S)
    reopen().queue("slow", delay=30 * DAY_S, **options).send("in a month")
    for name in ("orders", "slow"):
        reopen()
        clock.advance(0 if name == "slow" else 43 * DAY_S)
        queue = reopen().queue(name)
        assert [message.body for message in queue.browse()] == ["in a month"]
    clock.advance(DAY_S + 1)  # the time of a broker that is opened again may be a millisecond ahead of its clock
    assert [len(reopen().queue(name)) for name in ("orders", "slow", "dlq")] == [0, 0, 0]


@pytest.mark.everywhere
def test_a_group_is_taken_in_order_and_one_at_a_time(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    for body, group in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        orders.send(body, group=group)
    taken = orders.receive(10)
    assert sorted(message.body for message in taken) == ["a1", "b1"]
    next(message for message in taken if message.group == "a").ack()
    assert bodies(orders.receive(10)) == ["a2"]


@pytest.mark.everywhere
def test_a_duplicate_is_stored_once_and_has_the_id_of_the_first(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    orders = broker.queue("orders", dedup_window=300)
    first = orders.send("one", dedup_id="k1")
    clock.advance(299)
    assert orders.send("two", dedup_id="k1") == first
    clock.advance(1)
    assert orders.send("three", dedup_id="k1") != first
    assert bodies(orders.receive(10)) == ["one", "three"]


def test_a_duplicate_is_known_after_a_restart(reopen: Reopen) -> None:
    first = reopen().queue("orders").send("one", dedup_id="k1")
    orders = reopen().queue("orders")
    assert orders.send("two", dedup_id="k1") == first
    assert len(orders) == 1


@pytest.mark.everywhere
def test_duplicates_per_group(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", dedup_scope="group", groups="fair")
    for group in ("a", "b", "a"):
        orders.send(group, group=group, dedup_id="k1")
    assert len(orders) == 2


@pytest.mark.everywhere
def test_equal_bodies_are_duplicates_when_asked_for(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", content_dedup=True)
    sent = orders.send_many([b"same", b"same", b"other"])
    assert sent[0] == sent[1] != sent[2]
    assert orders.send(b"other") == sent[2]
    assert len(orders) == 2


@pytest.mark.everywhere
def test_a_full_queue_refuses_or_drops_its_oldest(broker: leveret.Broker) -> None:
    strict = broker.queue("strict", max_length=1, overflow="reject-publish")
    strict.send("kept")
    with pytest.raises(leveret.QueueFull, match="let consumers work"):
        strict.send("refused")
    assert strict.send_many([b"a"]) == [None]
    assert strict.send_many(["a"], priority=1) == [None]
    lenient = broker.queue("lenient", max_length=1)
    lenient.send_many(["old", "new"])
    assert bodies(lenient.receive(10)) == ["new"]


@pytest.mark.everywhere
def test_send_many_takes_options_for_all_and_for_one(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders", max_priority=5)
    orders.send_many(["a", leveret.Outgoing("b", priority=4), {"c": 1}], priority=2)
    assert bodies(orders.receive(10)) == ["b", "a", {"c": 1}]
    orders.send_many([b"later"], delay=1)
    assert orders.receive() == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"priority": 256}, "0 to 255"),
        ({"priority": True}, "0 to 255"),
        ({"delay": -1}, "0 or more"),
        ({"ttl": "soon"}, "number of seconds"),
        ({"delay": 1e12}, "over the limit"),
        ({"group": ""}, "1 to 1024"),
        ({"dedup_id": "x" * 1025}, "1 to 1024"),
        ({"headers": []}, "dict"),
    ],
)
def test_options_that_cannot_work_are_refused(broker: leveret.Broker, options: dict[str, object], text: str) -> None:
    orders = broker.queue("orders")
    with pytest.raises(leveret.InvalidArgument, match=text):
        orders.send("x", **options)  # type: ignore[arg-type]
    assert len(orders) == 0


@pytest.mark.everywhere
def test_bodies_that_are_neither_bytes_text_nor_json_are_refused(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    for body in (object(), float("nan"), "\ud800", {1, 2}):
        with pytest.raises(leveret.InvalidArgument, match="bytes"):
            orders.send(body)


@pytest.mark.everywhere
def test_bodies_over_the_limit_are_refused(broker: leveret.Broker) -> None:
    small = broker.queue("small", max_message_size=10)
    small.send(b"x" * 10)
    for send in (small.send, lambda body: small.send_many([body])):
        with pytest.raises(leveret.MessageTooLarge, match="11 bytes"):
            send(b"x" * 11)
    with pytest.raises(leveret.MessageTooLarge):
        broker.queue("default").send(b"x" * (16 * 2**20 + 1))


@pytest.mark.everywhere
def test_a_queue_is_opened_as_it_is(broker: leveret.Broker) -> None:
    declared = broker.queue("orders", visibility_timeout=5, max_priority=3)
    assert broker.queue("orders").arguments == declared.arguments
    assert broker.queue("orders", max_priority=3).arguments == declared.arguments


@pytest.mark.everywhere
def test_other_options_for_an_existing_queue_are_refused(broker: leveret.Broker) -> None:
    broker.queue("orders", max_priority=3)
    with pytest.raises(leveret.PreconditionFailed) as refused:
        broker.queue("orders", max_priority=4)
    assert str(refused.value) == (
        "inequivalent arg 'x-max-priority' for queue 'orders' in vhost '/': received '4' but current is '3'"
    )
    with pytest.raises(leveret.PreconditionFailed, match=r"'x-max-priority' .* received none but current"):
        broker.queue("orders", max_priority=None)
    with pytest.raises(leveret.PreconditionFailed, match=r"'x-visibility-timeout' .* received none but current"):
        broker.queue("orders", visibility_timeout=None)
    with pytest.raises(leveret.PreconditionFailed, match="'durable'"):
        broker.queue("orders", durable=False, max_priority=3)


@pytest.mark.everywhere
def test_an_unknown_option_names_the_one_that_was_meant(broker: leveret.Broker) -> None:
    with pytest.raises(leveret.InvalidArgument, match="did you mean 'visibility_timeout'"):
        broker.queue("orders", **misspelt("visibility_timout"))
    with pytest.raises(leveret.InvalidArgument, match="did you mean 'segment_bytes'"):
        leveret.open(**misspelt("segment_byte"))
    with pytest.raises(leveret.InvalidArgument, match="exit or raise"):
        leveret.open(**misspelt("on_failure", "ignore"))


def test_many_queues_at_once(reopen: Reopen) -> None:
    reopen().declare_queues([f"q{number}" for number in range(100)], ttl=5)
    broker = reopen()
    assert len(broker.queues()) == 100
    assert broker.queue("q7").arguments["x-message-ttl"] == 5000


@pytest.mark.parametrize("count", [0, -1, 10_001, True, 1.5])
def test_how_many_can_be_received_is_limited(broker: leveret.Broker, count: int) -> None:
    with pytest.raises(leveret.InvalidArgument, match="1 to 10000"):
        broker.queue("orders").receive(count)


def test_how_many_can_be_sent_at_once_is_limited(broker: leveret.Broker) -> None:
    with pytest.raises(leveret.InvalidArgument, match="100000"):
        broker.queue("orders").send_many([b""] * 100_001)


@pytest.mark.everywhere
def test_the_old_name_of_max_deliveries_warns(broker: leveret.Broker) -> None:
    with pytest.warns(DeprecationWarning, match="called max_deliveries now") as warned:
        old = broker.queue("old", **misspelt("max_retries", 2))
    assert warned[0].filename == __file__
    assert old.arguments["x-max-receive-count"] == 2
    assert broker.queue("old", max_deliveries=2).arguments == old.arguments


@pytest.mark.everywhere
def test_a_queue_that_is_not_to_be_created(broker: leveret.Broker) -> None:
    with pytest.raises(leveret.QueueNotFound, match="typo"):
        broker.queue("typo", create=False).stats()
    with pytest.raises(leveret.QueueNotFound, match="typo"):
        broker.stream("typo", create=False).stats()
    assert broker.queues() == []
    broker.queue("orders").send(1)
    assert len(broker.queue("orders", create=False)) == 1
