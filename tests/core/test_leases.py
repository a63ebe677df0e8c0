"""Leases: how they end, and where the message goes then."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core import browse
from leveret.core.errors import InvalidReceipt
from tests.core.world import World, ack, ready, take, taken, text


def test_an_acknowledged_message_is_gone(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "ab")
    ack(take(queue)[0])
    assert (queue.depth, queue.leased, ready(queue)) == (1, 0, "b")
    assert world.broker.journal.bodies.keys() == {2}


def test_expired_leases_return_in_their_original_order(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "abcdef")
    for lease_ms in (300, 100, 200):
        take(queue, 1, lease_ms)
    world.pass_ms(300)
    assert ready(queue) == "abcdef"
    assert [held.deliveries for held in queue.take(6)] == [2, 2, 2, 1, 1, 1]
    assert queue.counts["timed_out"] == 3


@given(st.permutations(range(8)))
def test_messages_return_to_their_place_in_whatever_order_they_are_given_back(order: list[int]) -> None:
    world = World()
    queue = world.queue()
    world.send_all(queue, "abcdefgh")
    leased = take(queue, 8)
    for index in order:
        queue.nack(leased[index], leased[index].lease, 0)
    assert ready(queue) == "abcdefgh"


def test_a_late_acknowledgement_is_a_typed_error_and_changes_nothing(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    held = take(queue, 1, 100)[0]
    lease = held.lease
    world.pass_ms(100)
    for late in (queue.ack, queue.reject):
        with pytest.raises(InvalidReceipt, match="visibility timeout passed"):
            late(held, lease)
    again = take(queue)[0]
    with pytest.raises(InvalidReceipt):
        queue.find_lease(again.seq, lease)
    assert queue.find_lease(again.seq, again.lease) is again


def test_a_message_can_be_settled_only_once(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    held = take(queue)[0]
    lease = held.lease
    queue.ack(held, lease)
    with pytest.raises(InvalidReceipt):
        queue.ack(held, lease)
    with pytest.raises(InvalidReceipt, match="not leased"):
        queue.find_lease(held.seq, lease)


def test_an_extended_lease_ends_later_and_a_shortened_one_earlier(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "ab")
    longer, shorter = take(queue, 2, 100)
    queue.extend(longer, longer.lease, 500)
    queue.extend(shorter, shorter.lease, 10)
    world.pass_ms(10)
    assert ready(queue) == "b"
    world.pass_ms(489)
    assert queue.leased == 1
    world.pass_ms(1)
    assert ready(queue) == "ab"


def test_a_lease_without_a_deadline_can_be_given_one(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    held = take(queue)[0]
    assert world.broker.next_deadline_ms is None
    queue.extend(held, held.lease, 50)
    world.pass_ms(50)
    assert queue.depth == 1


def test_a_message_that_backs_off_is_hidden_and_then_first_again(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "abc")
    held = take(queue)[0]
    queue.nack(held, held.lease, 100)
    assert (ready(queue), queue.backing_off) == ("bc", 1)
    assert [text(each) for each in browse.holdings(queue, "backing-off")] == ["a"]
    world.pass_ms(100)
    assert (ready(queue), queue.backing_off) == ("abc", 0)


@pytest.mark.parametrize(
    ("arguments", "waits_ms"),
    [
        ({}, [0, 0, 0]),
        ({"retry_backoff": "exponential", "retry_backoff_base": 10, "retry_backoff_max": 50}, [20, 40, 50]),
        ({"retry_backoff": "linear", "retry_backoff_base": 10, "retry_backoff_max": 25}, [10, 20, 25]),
        ({"retry_backoff": [5, 7]}, [5, 7, 7]),
    ],
)
def test_the_backoff_of_the_queue_applies_when_none_is_given(
    world: World, arguments: dict[str, Any], waits_ms: list[int]
) -> None:
    queue = world.queue(**arguments)
    world.send(queue)
    for wait_ms in waits_ms:
        held = take(queue)[0]
        world.broker.nack(queue, held, held.lease)
        assert queue.depth == (wait_ms == 0)
        world.pass_ms(wait_ms)
        assert queue.depth == 1


def test_a_receipt_from_before_a_restart_does_not_fit_a_lease_after_it(disk: World) -> None:
    queue = disk.queue()
    disk.send(queue)
    held = take(queue)[0]
    before = held.seq, held.lease
    disk.pass_ms(1)
    disk.restart()
    queue = disk.again()
    take(queue)
    with pytest.raises(InvalidReceipt):
        queue.find_lease(*before)


def test_what_was_leased_at_a_crash_waits_again_with_its_count(disk: World) -> None:
    queue = disk.queue()
    disk.send_all(queue, "abc")
    ack(take(queue, 2)[0])
    disk.restart()
    queue = disk.again()
    assert ready(queue) == "bc"
    assert [(text(held), held.deliveries) for held in queue.take(5)] == [("b", 2), ("c", 1)]


def test_what_was_not_committed_is_lost_and_nothing_else(disk: World) -> None:
    queue = disk.queue()
    disk.send_all(queue, "ab")
    disk.commit()
    disk.send(queue, "c")
    ack(take(queue)[0])
    disk.crash()
    assert taken(disk.again()) == "ab"


def test_cancelling_works_only_on_scheduled_messages(world: World) -> None:
    queue = world.queue()
    later = world.send(queue, "later", due_ms=world.now_ms + 100)
    now = world.send(queue, "now")
    assert not browse.cancel(queue, now)
    assert browse.cancel(queue, later)
    assert not browse.cancel(queue, later)
    world.pass_ms(100)
    assert (ready(queue), queue.scheduled) == ("now", 0)


def test_a_paused_queue_hands_nothing_out_also_after_a_restart(disk: World) -> None:
    queue = disk.queue()
    disk.send(queue, "a")
    disk.broker.pause_queue(queue, True)
    assert taken(queue) == ""
    disk.restart()
    queue = disk.again()
    assert taken(queue) == ""
    disk.broker.pause_queue(queue, False)
    assert taken(queue) == "a"


def test_a_message_whose_lease_ended_can_be_held_again(world: World) -> None:
    queue = world.queue()
    world.send(queue, "a")
    held = take(queue, 1, 100)[0]
    lease = held.lease
    world.pass_ms(100)
    assert queue.renew(held.seq, lease, 500)
    assert take(queue) == []
    queue.ack(queue.find_lease(held.seq, lease), lease)
    assert not queue.renew(held.seq, lease, 500)


def test_a_message_held_again_comes_back_in_time(world: World) -> None:
    queue = world.queue()
    world.send(queue, "a")
    held = take(queue, 1, 100)[0]
    world.pass_ms(100)
    queue.renew(held.seq, 1, 500)
    world.pass_ms(500)
    assert take(queue)[0].deliveries == 2


def test_a_message_that_came_back_can_be_settled_late(world: World) -> None:
    queue = world.queue()
    world.send(queue, "a")
    held = take(queue, 1, 100)[0]
    assert not browse.ack_waiting(queue, held.seq)
    world.pass_ms(100)
    assert browse.ack_waiting(queue, held.seq)
    assert queue.depth == 0
    assert not browse.ack_waiting(queue, held.seq)


def test_the_first_delivery_is_remembered(world: World) -> None:
    queue = world.queue()
    world.send(queue, "a")
    first_ms = world.now_ms
    take(queue, 1, 100)
    world.pass_ms(100)
    held = take(queue)[0]
    assert (held.first_delivered_ms, held.delivered_ms) == (first_ms, first_ms + 100)
