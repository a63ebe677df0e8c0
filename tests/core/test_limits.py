"""Limits of a queue: length, bytes, message size, deliveries; what happens at each."""

from typing import Any

import pytest

from leveret.core.arguments import COUNT_MAX
from leveret.core.errors import DiskFull, InvalidArgument, MessageTooLarge, QueueFull
from leveret.core.policy import Policy
from leveret.storage.journal.journal import FileJournal
from tests.core.world import World, headers_of, ready, take, taken

TO_DLQ: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dlq"}


def test_drop_head_lets_the_oldest_of_the_lowest_priority_go(world: World) -> None:
    queue = world.queue(max_length=3, max_priority=5)
    world.send(queue, "a", priority=5)
    world.send_all(queue, "bcde")
    assert ready(queue) == "ade"
    assert queue.counts["maxlen"] == 2


def test_drop_head_counts_the_bytes_of_bodies(world: World) -> None:
    queue = world.queue(max_length_bytes=10)
    for body in ("aaaa", "bbbb", "cc", "d"):
        world.send(queue, body, {"header": "does not count"})
    assert (ready(queue), queue.depth_bytes) == ("bbbbccd", 7)


def test_a_length_of_zero_holds_nothing(world: World) -> None:
    queue = world.queue(max_length=0)
    world.send(queue)
    assert queue.depth == 0


def test_reject_publish_refuses_and_never_drops_what_it_took(world: World) -> None:
    queue = world.queue(max_length=1, overflow="reject-publish")
    world.send(queue, "later", due_ms=world.now_ms + 10)
    world.send(queue, "now")
    with pytest.raises(QueueFull, match="let consumers work"):
        world.send(queue, "too many")
    world.pass_ms(10)
    assert (ready(queue), queue.counts["refused"]) == ("nowlater", 1)


def test_reject_publish_dlx_dead_letters_what_it_refuses(world: World) -> None:
    dead = world.queue("dlq")
    queue = world.queue(max_length=1, overflow="reject-publish-dlx", **TO_DLQ)
    world.send(queue, "a")
    with pytest.raises(QueueFull):
        world.send(queue, "b")
    assert (ready(queue), ready(dead)) == ("a", "b")
    headers = headers_of(take(dead)[0])
    assert headers["x-first-death-reason"] == "maxlen"
    assert "x-origin-id" not in headers  # it never had a number


def test_a_full_queue_of_a_fan_out_is_reported_and_the_others_get_the_message(world: World) -> None:
    full, free = world.queue("full", max_length=0, overflow="reject-publish"), world.queue("free")
    for queue in (full, free):
        world.broker.bind("/", "amq.fanout", queue.name)
    assert world.publish("amq.fanout", "", "m") == (0, True, True)
    assert (full.depth, free.depth) == (0, 1)


def test_a_message_over_the_size_is_refused(world: World) -> None:
    queue = world.queue(max_message_size=3)
    world.send(queue, "abc")
    with pytest.raises(MessageTooLarge, match="message size 4 is larger than configured max size 3"):
        world.send(queue, "abcd")


def test_the_length_holds_also_while_every_group_waits_for_a_lease(world: World) -> None:
    queue = world.queue(max_length=2, message_groups="fifo")
    world.send(queue, "a", group=5)
    held = take(queue)[0]
    world.send_all(queue, "bcdef", group=5)
    assert ready(queue) == "ef"
    queue.ack(held, held.lease)
    assert taken(queue) == "e"


@pytest.mark.parametrize(("argument", "deliveries"), [("delivery_limit", 3), ("max_receive_count", 2)])
def test_lease_timeouts_count_toward_the_delivery_limit(world: World, argument: str, deliveries: int) -> None:
    dead = world.queue("dlq")
    queue = world.queue(**{argument: 2, **TO_DLQ})
    world.send(queue, "a")
    for _ in range(deliveries):
        assert taken(queue, 1, 100) == "a"
        world.pass_ms(100)
    assert (queue.depth, ready(dead)) == (0, "a")
    assert queue.counts["delivery_limit"] == 1


@pytest.mark.parametrize("argument", ["delivery_limit", "max_receive_count"])
def test_a_delivery_limit_may_be_larger_than_any_count(world: World, argument: str) -> None:
    limit: dict[str, Any] = {argument: COUNT_MAX}
    queue = world.queue(**limit)
    world.send(queue, "a")
    for _ in range(3):
        assert taken(queue, 1, 100) == "a"
        world.pass_ms(100)
    assert ready(queue) == "a"


def test_a_lowered_delivery_limit_holds_for_what_waits(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    for _ in range(3):
        held = take(queue)[0]
        queue.nack(held, held.lease, 0)
    world.broker.set_policy("/", Policy("limit", ".*", definition={"delivery-limit": 1}))
    assert taken(queue) == ""
    assert queue.counts["delivery_limit"] == 1


def test_a_policy_that_lowers_the_length_acts_at_once_and_lifts_when_deleted(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "abc")
    world.broker.set_policy("/", Policy("short", "^q$", definition={"max-length": 1}))
    assert ready(queue) == "c"
    world.broker.delete_policy("/", "short")
    world.send_all(queue, "de")
    assert ready(queue) == "cde"


def test_a_policy_can_make_a_queue_reject_at_run_time(world: World) -> None:
    queue = world.queue(max_length=1)
    world.broker.set_policy("/", Policy("reject", ".*", definition={"overflow": "reject-publish"}))
    world.send(queue, "a")
    with pytest.raises(QueueFull):
        world.send(queue, "b")
    world.broker.delete_policy("/", "reject")
    world.send(queue, "c")
    assert ready(queue) == "c"


def test_a_full_disk_refuses_publishes_but_not_settling_and_dead_letters(disk: World) -> None:
    dead, queue = disk.queue("dlq"), disk.queue(max_receive_count=1, **TO_DLQ)
    disk.send_all(queue, "ab")
    take(queue, 1, 10)
    held = take(queue)[0]
    assert isinstance(disk.broker.journal, FileJournal)
    disk.broker.journal.refuse_publishes(True)
    with pytest.raises(DiskFull, match="free space"):
        disk.send(queue, "c")
    disk.send(queue, "in memory", persistent=False)
    queue.ack(held, held.lease)
    disk.pass_ms(10)
    assert (ready(queue), ready(dead), queue.leased) == ("in memory", "a", 0)


@pytest.mark.parametrize("delay", ["soon", None, 2**62, True, [1]])
def test_a_delay_that_is_none_is_refused(world: World, delay: object) -> None:
    world.queue()
    world.broker.declare_exchange("/", "later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    world.broker.bind("/", "later", "q")
    with pytest.raises(InvalidArgument, match="whole number of milliseconds"):
        world.publish("later", "", headers={"x-delay": delay})


def test_a_delaying_exchange_hides_a_message_for_as_long_as_it_asks(world: World) -> None:
    queue = world.queue()
    world.broker.declare_exchange("/", "later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    world.broker.bind("/", "later", "q")
    world.publish("later", "", "a", headers={"x-delay": 100})
    world.publish("later", "", "b", headers={"x-delay": -5})
    assert ready(queue) == "b"
    world.pass_ms(100)
    assert ready(queue) == "ba"
