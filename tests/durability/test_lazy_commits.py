"""What nobody waits for goes to the disk with the next commit, or on its own: 50 ms later, or when it is much."""

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from leveret.clock import give_turn
from leveret.runtime.durability import LAZY_COMMIT_BYTES, LAZY_COMMIT_MS
from leveret.storage.journal.journal import FileJournal
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ConfirmSelect,
    ConfirmSelectOk,
)
from tests.protocols.amqp.client import Client, World
from tests.waiting import PATIENCE_S

TURNS = 1_000
PIECE = bytes(1 << 16)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(path=str(tmp_path))
    yield made
    made.close()


def journal(world: World) -> FileJournal:
    found = world.core.journal
    assert isinstance(found, FileJournal)
    return found


def settle(world: World) -> None:
    """Put everything on the disk that was done until now."""
    world.broker.flush()
    while not world.frames.empty():
        world.hub.durable(world.frames.get())


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread without a verb, which would plan a commit itself."""
    until_s = monotonic() + PATIENCE_S
    while not condition():
        assert monotonic() < until_s, "it does not happen"
        give_turn()


def give_turns() -> None:
    """Let other threads do what they have to."""
    for _ in range(TURNS):
        give_turn()


def holding(world: World, count: int) -> Client:
    """A client that was given messages, all of which is on the disk."""
    client = world.client()
    client.queue(durable=True)
    client.call(BasicConsume("q", "c"), BasicConsumeOk)
    for _ in range(count):
        client.publish(delivery_mode=2)
        client.next(BasicDeliver)
    settle(world)
    return client


def test_an_acknowledgement_is_written_after_50_ms(world: World) -> None:
    client = holding(world, 2)
    for tag in (1, 2):
        client.send(BasicAck(tag))
        world.clock.advance((LAZY_COMMIT_MS - 1) / 1000)
        assert journal(world).dirty
        world.clock.advance(0.001)
        until(lambda: not journal(world).dirty)


def test_more_acknowledgements_do_not_put_it_off(world: World) -> None:
    client = holding(world, LAZY_COMMIT_MS)
    for tag in range(1, LAZY_COMMIT_MS + 1):
        client.send(BasicAck(tag))
        assert journal(world).dirty
        world.clock.advance(0.001)
    until(lambda: not journal(world).dirty)


def test_what_comes_after_a_commit_has_50_ms_of_its_own(world: World) -> None:
    world.broker.queue("grave")
    world.broker.queue("short", ttl=LAZY_COMMIT_MS / 1000, dead_letter="grave").send("late")
    grave = world.core.topology.vhost("/").queues["grave"]
    client = holding(world, 2)
    client.send(BasicAck(1))
    world.clock.advance(0.001)
    settle(world)
    client.send(BasicAck(2))
    world.clock.advance((LAZY_COMMIT_MS - 1) / 1000)
    until(lambda: grave.depth == 1)  # so the time of the first one has come, too
    give_turns()
    assert journal(world).dirty
    world.clock.advance(0.001)
    until(lambda: not journal(world).dirty)


def test_a_clock_that_was_set_back_does_not_put_it_off(world: World) -> None:
    client = holding(world, 1)
    world.clock.advance(-3600)
    client.send(BasicAck(1))
    world.clock.advance(LAZY_COMMIT_MS / 1000)
    until(lambda: not journal(world).dirty)


def test_an_acknowledgement_goes_with_the_next_confirm(world: World) -> None:
    client = holding(world, 1)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.send(BasicAck(1))
    client.publish(key="nowhere", delivery_mode=2)
    client.next(BasicAck)
    assert not journal(world).dirty


def test_much_is_written_at_once(world: World) -> None:
    client = world.client()
    client.queue(durable=True)
    settle(world)
    for _ in range(LAZY_COMMIT_BYTES // len(PIECE)):
        client.publish(body=PIECE, delivery_mode=2)
    until(lambda: not journal(world).dirty)


def test_what_time_does_is_written_too(world: World) -> None:
    world.broker.queue("grave")
    world.broker.queue("dead", ttl=1, dead_letter="grave")
    world.broker.queue("short", ttl=1, dead_letter="dead").send("late")
    settle(world)
    queues = world.core.topology.vhost("/").queues
    world.clock.advance(1)
    until(lambda: queues["dead"].depth == 1)
    world.clock.advance(1)
    until(lambda: queues["grave"].depth == 1)
    world.clock.advance(LAZY_COMMIT_MS / 1000)
    until(lambda: not journal(world).dirty)
