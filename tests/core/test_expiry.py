"""Time to live of messages and queues, retention, delay of a queue."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core import dispatch
from leveret.core.errors import QueueNotFound
from leveret.core.policy import Policy
from tests.core.world import Recorder, World, headers_of, ready, take, taken

TO_DLQ: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dlq"}


def test_messages_expire_at_the_head_and_are_dead_lettered(world: World) -> None:
    dead, queue = world.queue("dlq"), world.queue(message_ttl=100, **TO_DLQ)
    world.send(queue, "a")
    world.pass_ms(50)
    world.send(queue, "b")
    world.pass_ms(50)
    assert (ready(queue), ready(dead)) == ("b", "a")
    assert headers_of(take(dead)[0])["x-first-death-reason"] == "expired"


def test_an_expiry_behind_a_longer_one_is_noticed_in_time(world: World) -> None:
    queue = world.queue()
    world.send(queue, "for ever")
    world.send(queue, "long", expiry_ms=world.now_ms + 500)
    world.send(queue, "short", expiry_ms=world.now_ms + 100)
    world.pass_ms(100)
    assert ready(queue) == "for everlong"
    world.pass_ms(400)
    assert ready(queue) == "for ever"


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 2)), max_size=30), st.integers(0, 60))
def test_exactly_the_expired_go_whatever_the_order_of_their_times(sent: list[tuple[int, int]], wait_ms: int) -> None:
    world = World()
    queue = world.queue(max_priority=2)
    for ttl_ms, priority in sent:
        world.send(queue, "m", expiry_ms=ttl_ms and world.now_ms + ttl_ms, priority=priority)
    world.pass_ms(wait_ms)
    assert queue.depth == sum(1 for ttl_ms, _ in sent if ttl_ms == 0 or ttl_ms > wait_ms)
    assert queue.counts["expired"] == len(sent) - queue.depth


def test_a_time_to_live_of_zero_lasts_for_this_millisecond(world: World) -> None:
    queue = world.queue(message_ttl=0)
    world.send(queue, "a")
    assert taken(queue) == "a"
    world.send(queue, "b")
    world.pass_ms(1)
    assert taken(queue) == ""


def test_the_shorter_of_the_queue_s_and_the_message_s_life_counts(world: World) -> None:
    queue = world.queue(message_ttl=100)
    world.send(queue, "long", expiry_ms=world.now_ms + 500)
    world.send(queue, "short", expiry_ms=world.now_ms + 50)
    world.pass_ms(50)
    assert ready(queue) == "long"
    world.pass_ms(50)
    assert ready(queue) == ""


def test_a_leased_message_expires_when_it_is_given_back_and_not_before(world: World) -> None:
    queue = world.queue(message_ttl=100)
    world.send(queue)
    held = take(queue)[0]
    world.pass_ms(200)
    assert queue.leased == 1
    queue.nack(held, held.lease, 0)
    assert (queue.depth, queue.counts["expired"]) == (0, 1)


def test_a_time_to_live_of_0_ends_with_the_delivery(world: World) -> None:
    queue = world.queue(message_ttl=0)
    world.send(queue)
    held = take(queue)[0]
    queue.nack(held, held.lease, 0)
    assert (queue.depth, queue.counts["expired"]) == (0, 1)


def test_what_expires_while_it_backs_off_goes_when_it_is_due(world: World) -> None:
    queue = world.queue(message_ttl=100)
    world.send(queue)
    held = take(queue)[0]
    queue.nack(held, held.lease, 500)
    world.pass_ms(500)
    assert (queue.depth, queue.backing_off, queue.counts["expired"]) == (0, 0, 1)


def test_retention_drops_without_a_dead_letter(world: World) -> None:
    dead, queue = world.queue("dlq"), world.queue(retention=100, message_ttl=200, **TO_DLQ)
    world.send(queue, "old")
    world.send(queue, "expired", expiry_ms=world.now_ms + 50)
    world.pass_ms(100)
    assert (queue.depth, ready(dead)) == (0, "expired")
    assert (queue.counts["dropped"], queue.counts["expired"]) == (1, 1)


def test_a_queue_can_delay_everything(world: World) -> None:
    queue = world.queue(delay=100)
    world.send(queue, "a")
    world.send(queue, "b", due_ms=world.now_ms + 50)
    world.pass_ms(50)
    assert ready(queue) == "b"
    world.pass_ms(50)
    assert ready(queue) == "ba"


def test_a_queue_that_nobody_uses_goes(world: World) -> None:
    queue = world.queue(expires=100)
    world.pass_ms(99)
    world.broker.declare_queue("/", "q", {"x-expires": 100})
    world.pass_ms(99)
    queue.take(1)
    world.pass_ms(99)
    assert world.again() is queue
    world.pass_ms(1)
    with pytest.raises(QueueNotFound):
        world.again()


def test_a_consumer_keeps_an_expiring_queue_without_waking_the_broker_all_the_time(world: World) -> None:
    queue, consumer = world.queue(expires=1_000), Recorder()
    dispatch.subscribe(queue, consumer)
    world.pass_ms(5_500)
    assert world.broker.next_deadline_ms == world.now_ms + 1_000
    dispatch.unsubscribe(queue, consumer)
    world.pass_ms(999)
    assert world.again() is queue
    world.pass_ms(1)
    assert queue.deleted


def test_the_time_of_an_expiring_queue_starts_anew_at_a_restart(disk: World) -> None:
    disk.queue(expires=1_000)
    disk.commit()
    disk.now_ms += 5_000
    disk.crash()
    disk.pass_ms(999)
    assert disk.again()
    disk.pass_ms(1)
    with pytest.raises(QueueNotFound):
        disk.again()


@pytest.mark.parametrize("how", ["replay", "checkpoint"])
def test_expiries_out_of_order_survive_a_restart(disk: World, how: str) -> None:
    queue = disk.queue(max_priority=1)
    disk.send(queue, "a")
    disk.send(queue, "b", expiry_ms=disk.now_ms + 100)
    disk.send(queue, "c", expiry_ms=disk.now_ms + 200, priority=1)
    if how == "checkpoint":
        disk.disk().checkpoint()
    disk.restart()
    disk.pass_ms(100)
    assert ready(disk.again()) == "ca"
    disk.pass_ms(100)
    assert ready(disk.again()) == "a"


@pytest.mark.parametrize("how", ["replay", "checkpoint", "compaction"])
def test_what_a_policy_said_of_a_message_survives_a_restart(disk: World, how: str) -> None:
    mortal, other = disk.queue("mortal"), disk.queue("other")
    disk.send_all(mortal, "before")
    disk.broker.set_policy("/", Policy("ttl", "^mortal$", definition={"message-ttl": 100, "delay": 50}))
    for queue in (mortal, other):
        disk.broker.bind("/", "amq.fanout", queue.name)
    disk.publish("amq.fanout", "", "x")
    disk.commit()
    if how == "checkpoint":
        disk.disk().checkpoint()
    elif how == "compaction":
        disk.compact()
    disk.restart()
    assert (ready(disk.again("mortal")), ready(disk.again("other"))) == ("before", "x")
    disk.pass_ms(50)
    assert ready(disk.again("mortal")) == "beforex"
    disk.pass_ms(50)
    assert (ready(disk.again("mortal")), ready(disk.again("other"))) == ("before", "x")
