"""Who gets the next message: prefetch, turns, priorities, single active or exclusive; what a leaving one held."""

from typing import Any

import pytest

from leveret.core import dispatch
from leveret.core.errors import AccessRefused, InvalidReceipt, QueueFull, ResourceLocked, TooMany
from leveret.core.queue import Queue
from tests.core.world import Recorder, World, ready


def subscribed(queue: Queue, *consumers: Recorder) -> None:
    """Subscribe consumers in this order."""
    for consumer in consumers:
        dispatch.subscribe(queue, consumer)


def run(world: World) -> int:
    """Push what can be pushed, as the owner of the broker does; give the number pushed."""
    return sum(dispatch.pump(queue) for queue in world.broker.take_dirty())


def test_equal_consumers_get_messages_in_turn(world: World) -> None:
    queue, one, two = world.queue(), Recorder("one"), Recorder("two")
    subscribed(queue, one, two)
    world.send_all(queue, "abcd")
    assert run(world) == 4
    assert (one.bodies, two.bodies) == (["a", "c"], ["b", "d"])


def test_prefetch_bounds_what_a_consumer_holds(world: World) -> None:
    queue, consumer = world.queue(), Recorder(prefetch=2)
    world.send_all(queue, "abc")
    subscribed(queue, consumer)
    run(world)
    assert (consumer.bodies, consumer.unacked, queue.depth) == (["a", "b"], 2, 1)
    queue.ack(consumer.got[0], consumer.got[0].lease)
    run(world)
    assert consumer.bodies == ["a", "b", "c"]


def test_a_higher_priority_gets_everything_until_it_is_full(world: World) -> None:
    queue, low, high = world.queue(), Recorder("low"), Recorder("high", priority=5, prefetch=1)
    subscribed(queue, low, high)
    world.send_all(queue, "abc")
    run(world)
    assert (high.bodies, low.bodies) == (["a"], ["b", "c"])


def test_a_blocked_consumer_is_passed_over(world: World) -> None:
    queue, one, two = world.queue(), Recorder("one"), Recorder("two")
    one.blocked = True
    subscribed(queue, one, two)
    world.send_all(queue, "ab")
    run(world)
    assert (one.bodies, two.bodies) == ([], ["a", "b"])


def test_only_the_active_consumer_gets_messages_until_it_leaves(world: World) -> None:
    queue, one, two = world.queue(single_active_consumer=True), Recorder("one", prefetch=1), Recorder("two")
    subscribed(queue, one, two)
    world.send_all(queue, "ab")
    run(world)
    assert (one.bodies, two.bodies, queue.active) == (["a"], [], one)
    dispatch.unsubscribe(queue, one)
    dispatch.requeue(queue, one)
    run(world)
    assert (two.bodies, queue.active) == (["a", "b"], two)


def test_the_first_consumer_is_the_active_one_whatever_comes_later(world: World) -> None:
    queue, first = world.queue(single_active_consumer=True), Recorder("first")
    second, higher = Recorder("second"), Recorder("higher", priority=5)
    subscribed(queue, first, second, higher)
    world.send(queue, "a")
    run(world)
    assert (first.bodies, queue.active) == (["a"], first)
    dispatch.unsubscribe(queue, first)
    assert queue.active is higher


def test_in_a_quorum_queue_a_higher_priority_takes_over_when_all_is_settled(world: World) -> None:
    queue, first = world.queue(queue_type="quorum", single_active_consumer=True), Recorder("first", prefetch=2)
    higher = Recorder("higher", priority=5)
    subscribed(queue, first)
    world.send_all(queue, "ab")
    run(world)
    subscribed(queue, higher)
    world.send(queue, "c")
    queue.ack(first.got[0], first.got[0].lease)
    run(world)
    assert (first.bodies, higher.bodies, queue.active) == (["a", "b"], [], first)
    queue.ack(first.got[1], first.got[1].lease)
    run(world)
    assert (higher.bodies, queue.active) == (["c"], higher)


def test_an_exclusive_consumer_is_alone(world: World) -> None:
    queue, only = world.queue(), Recorder("only", exclusive=True)
    subscribed(queue, only)
    with pytest.raises(AccessRefused, match="in exclusive use"):
        dispatch.subscribe(queue, Recorder())
    dispatch.unsubscribe(queue, only)
    subscribed(queue, Recorder())
    with pytest.raises(AccessRefused):
        dispatch.subscribe(queue, only)


def test_there_is_a_limit_on_consumers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "CONSUMERS_PER_QUEUE_MAX", 1)
    queue = world.queue()
    subscribed(queue, Recorder())
    with pytest.raises(TooMany, match="larger prefetch"):
        dispatch.subscribe(queue, Recorder())


def test_what_a_lost_consumer_held_returns_to_its_place_and_counts(world: World) -> None:
    queue, lost = world.queue(), Recorder(prefetch=3)
    world.send_all(queue, "abcd")
    subscribed(queue, lost)
    run(world)
    dispatch.unsubscribe(queue, lost)
    dispatch.requeue(queue, lost)
    assert (ready(queue), lost.unacked, queue.leased) == ("abcd", 0, 0)
    assert [held.deliveries for held in queue.take(4)] == [2, 2, 2, 1]


def test_without_acknowledgements_a_delivery_is_the_end(world: World) -> None:
    queue, consumer = world.queue(), Recorder(no_ack=True, prefetch=1)
    subscribed(queue, consumer)
    world.send_all(queue, "ab")
    run(world)
    assert (consumer.bodies, queue.leased, queue.counts["acked"]) == (["a", "b"], 0, 2)


def test_a_consumer_timeout_ends_the_lease(world: World) -> None:
    queue, consumer = world.queue(consumer_timeout=100), Recorder(prefetch=1)
    subscribed(queue, consumer)
    world.send(queue)
    run(world)
    lease = consumer.got[0].lease
    world.pass_ms(100)
    assert (queue.depth, consumer.unacked) == (1, 0)
    with pytest.raises(InvalidReceipt):
        queue.ack(consumer.got[0], lease)


def test_a_paused_queue_pushes_nothing_until_it_goes_on(world: World) -> None:
    queue, consumer = world.queue(), Recorder()
    subscribed(queue, consumer)
    world.broker.pause_queue(queue, True)
    world.send(queue, "a")
    run(world)
    assert consumer.bodies == []
    world.broker.pause_queue(queue, False)
    run(world)
    assert consumer.bodies == ["a"]


def test_a_deleted_queue_tells_its_consumers_and_ends_their_leases(world: World) -> None:
    queue, consumer = world.queue(), Recorder(prefetch=1)
    world.send_all(queue, "ab")
    subscribed(queue, consumer)
    run(world)
    held = consumer.got[0]
    assert world.broker.delete_queue(queue) == 1
    assert consumer.gone
    with pytest.raises(InvalidReceipt):
        queue.ack(held, 1)
    assert not world.broker.journal.bodies


def test_an_exclusive_queue_is_its_owner_s(world: World) -> None:
    owner = object()
    queue = world.broker.declare_queue("/", "mine", owner=owner)
    assert world.broker.declare_queue("/", "mine", owner=owner) is queue
    for other in (None, object()):
        with pytest.raises(ResourceLocked, match="cannot obtain exclusive access"):
            world.broker.declare_queue("/", "mine", owner=other)


@pytest.mark.parametrize("limit", [{"max_length": 1}, {"max_length": 0}, {"max_length_bytes": 1}])
def test_what_a_consumer_can_take_is_not_over_a_limit(world: World, limit: dict[str, Any]) -> None:
    queue, consumer = world.queue(**limit), Recorder()
    subscribed(queue, consumer)
    world.send_all(queue, "abc")
    run(world)
    assert (consumer.bodies, queue.counts["maxlen"]) == (["a", "b", "c"], 0)


def test_what_a_consumer_cannot_take_is(world: World) -> None:
    queue, consumer = world.queue(max_length=1), Recorder(prefetch=1)
    subscribed(queue, consumer)
    world.send_all(queue, "abc")
    run(world)
    assert (consumer.bodies, ready(queue), queue.counts["maxlen"]) == (["a"], "c", 1)


def test_a_full_queue_refuses_only_what_no_consumer_can_take(world: World) -> None:
    queue, consumer = world.queue(max_length=1, overflow="reject-publish"), Recorder(prefetch=2)
    subscribed(queue, consumer)
    world.send_all(queue, "abc")
    with pytest.raises(QueueFull):
        world.send(queue, "d")
    assert (consumer.bodies, ready(queue)) == (["a", "b"], "c")
