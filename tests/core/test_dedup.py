"""De-duplication on publish: window, scope, and what survives a restart."""

import pytest

from leveret.core import dedup
from leveret.core.dedup import Dedup, digest
from tests.core.world import World, ready, taken

KEY, OTHER = digest("key"), digest("other")


def test_a_key_within_its_window_is_taken_once_and_names_the_first_message(world: World) -> None:
    queue = world.queue(deduplication_window=100)
    first = world.send(queue, "a", key=KEY)
    world.pass_ms(99)
    assert world.send(queue, "b", key=KEY) == first
    assert world.send(queue, "c", key=OTHER) != first
    world.pass_ms(1)
    assert world.send(queue, "d", key=KEY) != first
    assert ready(queue) == "acd"


def test_a_key_counts_also_after_its_message_has_been_acknowledged(world: World) -> None:
    queue = world.queue()
    world.send(queue, "a", key=KEY)
    held = queue.take(1)[0]
    queue.ack(held, held.lease)
    world.send(queue, "b", key=KEY)
    assert queue.depth == 0


def test_the_same_key_in_another_group_is_another_digest() -> None:
    assert len({digest("key"), digest("key", "one"), digest("key", "two"), digest(b"key", "")}) == 4
    assert digest("key") == digest(b"key")


def test_each_queue_of_a_fan_out_has_its_own_keys(world: World) -> None:
    one, two = world.queue("one"), world.queue("two")
    world.send(one, "a", key=KEY)
    for queue in (one, two):
        world.broker.bind("/", "amq.fanout", queue.name)
    world.publish("amq.fanout", "", "b", key=KEY)
    assert (ready(one), ready(two)) == ("a", "b")


def test_a_refused_message_leaves_no_key(world: World) -> None:
    full = world.queue("full", max_length=1, overflow="reject-publish")
    world.broker.bind("/", "amq.fanout", "full")
    world.send(full, "a")
    assert world.publish("amq.fanout", "", "b", key=KEY) == (0, True, True)
    taken(full)
    world.publish("amq.fanout", "", "b", key=KEY)
    assert ready(full) == "b"


@pytest.mark.parametrize("how", ["replay", "checkpoint", "compaction"])
def test_keys_survive_a_restart(disk: World, how: str) -> None:
    queue = disk.queue(deduplication_window=100)
    first = disk.send(queue, "a", key=KEY)
    if how == "checkpoint":
        disk.disk().checkpoint()
    elif how == "compaction":
        for _ in range(20):
            disk.send(queue, "x" * 100)
            disk.commit()
        disk.compact()
        assert disk.disk().meta.oldest > 1
    disk.restart()
    queue = disk.again()
    depth = queue.depth
    assert disk.send(queue, "b", key=KEY) == first
    disk.pass_ms(100)
    disk.send(queue, "c", key=KEY)
    assert queue.depth == depth + 1


def test_a_key_that_came_again_does_not_keep_older_ones_alive_after_a_restart(disk: World) -> None:
    queue = disk.queue(deduplication_window=100)
    disk.send(queue, "a", key=KEY)
    disk.pass_ms(10)
    disk.send(queue, "b", key=OTHER)
    disk.pass_ms(95)
    disk.send(queue, "c", key=KEY)
    disk.restart()
    disk.pass_ms(15)
    disk.send(disk.again(), "d", key=OTHER)
    assert ready(disk.again()) == "abcd"


def test_the_number_of_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup, "KEYS_MAX", 2)
    keys = Dedup()
    for number in range(3):
        keys.add(bytes([number]), number, 0, 0)
    assert [row[0] for row in keys.rows()] == [b"\x01", b"\x02"]
