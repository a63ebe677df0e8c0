"""What comes back: by replay, from a checkpoint, after compaction; always the same."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core import browse
from leveret.core.errors import StoreUnreachable, UnknownFormat
from leveret.core.queue import Queue
from tests.core.world import World, ack, ready, take, taken, text

ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {"deduplication_window": 1_000},
    "ranked": {"max_priority": 3, "message_ttl": 60},
    "grouped": {"message_groups": "fifo", "delay": 3},
}


def contents(queue: Queue) -> dict[str, Any]:
    """Everything that a queue knows."""
    places = [(held.priority, held.group, held.ready_ms, held.seq) for held in browse.ready_after(queue, (), 9_999)[0]]
    return {
        "ready": sorted(places),
        "counts": sorted(
            (held.seq, held.deliveries, held.expiry_ms) for held in browse.ready_after(queue, (), 9_999)[0]
        ),
        "hidden": [
            (state, held.seq, held.when_ms, held.deliveries, held.group)
            for state in ("scheduled", "backing-off")
            for held in browse.holdings(queue, state)
        ],
        "bytes": (queue.depth, queue.depth_bytes),
        "keys": sorted(row[:3] for row in queue.dedup.rows()) if queue.dedup else [],
    }


def state(world: World) -> dict[str, dict[str, Any]]:
    """Everything that the queues know, leases aside."""
    return {name: contents(world.again(name)) for name in ARGUMENTS}


def busy(world: World, seed: int, steps: int) -> None:
    """Do this and that."""
    chance = random.Random(seed)
    for _ in range(steps):
        queue = world.again(chance.choice(sorted(ARGUMENTS)))
        held = queue.take(1, 20) if chance.random() < 0.4 else []
        for each in held:
            verb = chance.randrange(4)
            if verb == 0:
                ack(each)
            elif verb == 1:
                queue.nack(each, each.lease, chance.choice([0, 9]))
        if not held:
            world.send(
                queue, "b" * chance.randrange(80), priority=chance.randrange(5), group=chance.randrange(3),
                key=chance.choice([None, bytes([chance.randrange(9)]) * 16]),
                due_ms=chance.choice([0, world.now_ms + 15]), expiry_ms=chance.choice([0, world.now_ms + 30]),
            )  # fmt: skip
        if chance.random() < 0.3:
            world.pass_ms(chance.randrange(5))
        if chance.random() < 0.2:
            world.commit()
    world.now_ms += 1


def declared(world: World) -> World:
    """The queues of these tests."""
    for name, arguments in ARGUMENTS.items():
        world.queue(name, **arguments)
    return world


@given(st.integers(0, 10_000), st.integers(0, 60), st.integers(0, 40))
def test_a_snapshot_and_the_replay_after_it_give_what_a_full_replay_gives(seed: int, steps: int, more: int) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        worlds = [declared(World(Path(one))), declared(World(Path(two)))]
        for world in worlds:
            busy(world, seed, steps)
        worlds[1].disk().checkpoint()
        for world in worlds:
            busy(world, seed + 1, more)
            world.restart()
        replayed, restored = (state(world) for world in worlds)
        for world in worlds:
            world.close()
        assert restored == replayed


@given(st.integers(0, 10_000), st.integers(1, 80))
def test_compaction_changes_nothing(seed: int, steps: int) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        worlds = [declared(World(Path(one))), declared(World(Path(two)))]
        for world in worlds:
            busy(world, seed, steps)
        worlds[1].compact()
        assert state(worlds[1]) == state(worlds[0])
        for world in worlds:
            world.restart()
        plain, compacted = (state(world) for world in worlds)
        for world in worlds:
            world.close()
        assert compacted == plain


def test_relocated_messages_keep_order_counts_and_bodies(disk: World) -> None:
    queue = disk.queue(max_priority=2)
    for number in range(40):
        disk.send(queue, f"{number:02d}" + "x" * 90, priority=number % 3)
        disk.commit()
    for held in take(queue, 5):
        queue.nack(held, held.lease, 0)
    before = [(text(held), held.deliveries) for held in browse.ready_after(queue, (), 100)[0]]
    disk.compact()
    assert disk.disk().meta.oldest > 3
    for _ in range(2):
        queue = disk.again()
        assert [(text(held), held.deliveries) for held in browse.ready_after(queue, (), 100)[0]] == before
        disk.restart()


def test_a_queue_whose_definition_was_copied_forward_has_its_rules_again(disk: World) -> None:
    queue = disk.queue(max_priority=2, message_ttl=500, delivery_limit=3)
    for number in range(30):
        disk.send(queue, "x" * 100, priority=9, group=number % 3)
        disk.commit()
    for held in take(queue, 10):
        ack(held)
    oldest = disk.disk().meta.oldest
    disk.broker.restorer.relocate(oldest, 1 << 30)
    disk.commit()
    disk.disk()._remove(oldest)
    disk.restart()
    queue = disk.again()
    assert browse.depth_by_priority(queue) == {2: 20}
    assert [held.seq for held in queue.take(99)] == list(range(11, 31))
    disk.pass_ms(500)
    disk.restart()
    assert disk.again().depth == 0


def test_what_stands_behind_a_copied_message_is_copied_too(disk: World) -> None:
    queue = disk.queue()
    for number in range(40):
        disk.send(queue, f"{number:02d}" + "x" * 90)
        disk.commit()
    oldest = disk.disk().meta.oldest
    disk.broker.restorer.relocate(oldest, 1 << 30)
    disk.commit()
    disk.disk()._remove(oldest)
    disk.restart()  # the definition comes last now: then all messages enter their queue again, the copied ones first
    disk.compact()
    assert [text(held)[:2] for held in disk.again().take(99)] == [f"{number:02d}" for number in range(40)]


def test_what_could_not_be_read_when_its_segment_was_emptied_is_moved_later(
    disk: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = disk.queue()
    for number in range(40):
        disk.send(queue, f"{number:02d}" + "x" * 90)
        disk.commit()

    def unreachable(*place: int) -> None:
        raise StoreUnreachable("not now")

    oldest = disk.disk().meta.oldest
    with monkeypatch.context() as patch:
        patch.setattr(disk.disk()._reader, "window", unreachable)
        with pytest.raises(StoreUnreachable):
            disk.broker.restorer.relocate(oldest, 1 << 30)
    assert disk.broker.restorer.relocate(oldest, 1 << 30)
    disk.commit()
    disk.disk()._remove(oldest)
    disk.restart()
    assert [text(held)[:2] for held in disk.again().take(99)] == [f"{number:02d}" for number in range(40)]


def test_a_delivery_count_above_what_a_cell_holds_survives(disk: World) -> None:
    queue = disk.queue()
    disk.send_all(queue, "ab")
    for _ in range(300):
        held = take(queue)[0]
        queue.nack(held, held.lease, 0)
    disk.restart()
    assert [(text(held), held.deliveries) for held in disk.again().take(2)] == [("a", 301), ("b", 1)]


def test_a_purge_is_replayed_but_spares_what_was_held_then(disk: World) -> None:
    queue = disk.queue()
    disk.send_all(queue, "abc")
    disk.send(queue, "later", due_ms=disk.now_ms + 10)
    take(queue)
    assert browse.purge(queue) == 2
    disk.send(queue, "d")
    disk.restart()
    assert ready(disk.again()) == "ad"
    disk.pass_ms(10)
    assert taken(disk.again()) == "adlater"


def test_a_snapshot_of_another_version_is_refused(world: World) -> None:
    snapshot = bytearray(world.broker.restorer.snapshot())
    snapshot[0] = 99
    with pytest.raises(UnknownFormat, match="version 99"):
        World().broker.restorer.restore(memoryview(snapshot))


def test_a_snapshot_that_is_cut_short_is_an_error_and_no_crash(disk: World) -> None:
    disk.send_all(disk.queue(message_ttl=100), "abc", key=b"k" * 16)
    snapshot = disk.broker.restorer.snapshot()
    for size in range(len(snapshot)):
        with pytest.raises(ValueError, match=r"cut short|Expecting|Unterminated|delimiter"):
            World().broker.restorer.restore(memoryview(snapshot[:size]))
