"""x-dead-letter-strategy=at-least-once: a dead letter stays in its queue until every target has it."""

from typing import Any

import pytest

from leveret.core import browse
from leveret.core.dead_lettering import RETRY_MS, RETRY_SOON_MS
from leveret.core.queue import Queue
from tests.core.world import World, headers_of, ready, take, taken

HOLDING = {
    "queue_type": "quorum",
    "dead_letter_strategy": "at-least-once",
    "overflow": "reject-publish",
    "dead_letter_exchange": "amq.direct",
    "dead_letter_routing_key": "dead",
}


def source(world: World, **arguments: Any) -> Queue:
    return world.queue("source", **HOLDING | arguments)


def target(world: World, name: str = "target", **arguments: Any) -> Queue:
    queue = world.queue(name, **arguments)
    world.broker.bind("/", "amq.direct", name, "dead")
    return queue


def reject(queue: Queue) -> None:
    held = take(queue)[0]
    queue.reject(held, held.lease)


def state(queue: Queue) -> tuple[int, int, int, int]:
    """What waits, what is leased, what backs off, what is held for its targets."""
    return queue.depth, queue.leased, queue.backing_off, queue.dlx


def test_a_dead_letter_without_a_route_is_held_until_it_has_one(world: World) -> None:
    queue = source(world)
    world.send(queue, "abc")
    reject(queue)
    assert (state(queue), queue.dlx_bytes > 0) == ((0, 0, 0, 1), True)
    assert (taken(queue), browse.holdings(queue, "backing-off")) == ("", [])
    world.pass_ms(RETRY_MS)
    assert state(queue) == (0, 0, 0, 1)
    grave = target(world)
    world.pass_ms(RETRY_SOON_MS)
    assert (state(queue), queue.dlx_bytes, ready(grave)) == ((0, 0, 0, 0), 0, "abc")
    assert headers_of(take(grave)[0])["x-death"][0]["reason"] == "rejected"


def test_a_dead_letter_that_its_target_refuses_is_tried_again_after_a_while(world: World) -> None:
    queue, grave = source(world), target(world, max_length=1, overflow="reject-publish")
    world.send_all(queue, "ab")
    reject(queue)
    reject(queue)
    assert (state(queue), ready(grave)) == ((0, 0, 0, 1), "a")
    browse.purge(grave)
    world.pass_ms(RETRY_MS - 1)
    assert ready(grave) == ""
    world.pass_ms(1)
    assert (state(queue), ready(grave)) == ((0, 0, 0, 0), "b")


def test_a_target_that_has_it_does_not_get_it_twice(world: World) -> None:
    queue = source(world)
    free, full = target(world, "free"), target(world, "full", max_length=0, overflow="reject-publish")
    world.send(queue, "a")
    reject(queue)
    world.pass_ms(RETRY_MS)
    assert (state(queue), ready(free)) == ((0, 0, 0, 1), "a")
    world.broker.change_queue(full, {"x-max-length": 1, "x-overflow": "reject-publish"})
    world.pass_ms(RETRY_MS)
    assert (state(queue), ready(free), ready(full)) == ((0, 0, 0, 0), "a", "a")


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("reason", ["rejected", "expired", "delivery_limit"])
def test_a_held_dead_letter_survives_restarts_and_compaction(disk: World, reason: str, checkpoint: bool) -> None:
    queue = source(disk, delivery_limit=0, **({"message_ttl": 10} if reason == "expired" else {}))
    disk.send_all(queue, "ab", persistent=False)
    for _ in range(2):
        if reason == "rejected":
            reject(queue)
        elif reason == "delivery_limit":
            held = take(queue)[0]
            queue.nack(held, held.lease, 0)
    disk.pass_ms(20)
    assert state(queue) == (0, 0, 0, 2)
    disk.restart()
    assert state(disk.again("source")) == (0, 0, 0, 2)
    disk.compact()
    if checkpoint:
        disk.commit()
        disk.disk().checkpoint()
    disk.restart()
    assert (state(disk.again("source")), taken(disk.again("source"))) == ((0, 0, 0, 2), "")
    grave = target(disk)
    disk.pass_ms(RETRY_SOON_MS)
    assert (state(disk.again("source")), ready(grave)) == ((0, 0, 0, 0), "ab")
    assert headers_of(take(grave)[0])["x-death"][0]["reason"] == reason
    disk.restart()
    assert (state(disk.again("source")), ready(disk.again("target"))) == ((0, 0, 0, 0), "ab")


def test_held_dead_letters_count_towards_the_length(world: World) -> None:
    queue = source(world, max_length=1)
    world.send(queue, "a")
    reject(queue)
    assert world.publish("", "source", "b") == (0, True, True)
    target(world)
    world.pass_ms(RETRY_SOON_MS)
    assert world.publish("", "source", "b")[0]


@pytest.mark.parametrize("changed", [{"overflow": "drop-head"}, {"dead_letter_strategy": "at-most-once"}])
def test_without_its_conditions_a_dead_letter_without_a_route_is_dropped(world: World, changed: dict[str, str]) -> None:
    told: list[Queue] = []
    world.broker.falls_back = told.append
    queue = source(world, **changed)
    world.send(queue, "a")
    reject(queue)
    assert state(queue) == (0, 0, 0, 0)
    assert told == ([queue] if "overflow" in changed else [])


def test_a_queue_with_held_dead_letters_can_be_deleted(disk: World) -> None:
    queue = source(disk)
    disk.send(queue, "a")
    reject(queue)
    disk.broker.delete_queue(queue)
    grave = target(disk)
    disk.pass_ms(RETRY_MS)
    assert ready(grave) == ""
    disk.restart()


def test_purging_leaves_held_dead_letters(disk: World) -> None:
    queue = source(disk)
    disk.send_all(queue, "ab")
    reject(queue)
    assert browse.purge(queue) == 1
    disk.restart()
    assert state(disk.again("source")) == (0, 0, 0, 1)


def test_a_group_does_not_wait_for_a_held_dead_letter(disk: World) -> None:
    queue = source(disk, message_groups="fifo")
    for body in "ab":
        disk.send(queue, body, group=5)
    reject(queue)
    assert taken(queue) == "b"
    disk.restart()
    assert taken(disk.again("source")) == "b"


def test_many_are_tried_a_thousand_at_a_time(world: World) -> None:
    queue = source(world)
    for number in range(2_500):
        world.send(queue, str(number % 10))
        reject(queue)
    grave = target(world)
    world.pass_ms(RETRY_SOON_MS)
    assert (queue.dlx, grave.depth) == (0, 2_500)
