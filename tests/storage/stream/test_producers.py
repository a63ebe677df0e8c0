"""De-duplication by producer and sequence number, through restarts, crashes and retention."""

import pytest

from leveret.core.errors import TooMany
from leveret.storage.stream import index as limits
from leveret.storage.stream.index import PRODUCER_IDLE_MS, Producers
from tests.storage.stream.world import World, on_files


def send(world: World, sequence: int, producer: bytes = b"till") -> int | None:
    return world.append(b"%d" % sequence, producer=producer, sequence=sequence)


def test_what_a_producer_sends_twice_is_taken_once(world: World) -> None:
    assert [send(world, sequence) for sequence in (1, 2, 2, 1, 5, 3)] == [0, 1, None, None, 2, None]
    assert send(world, 1, b"other") == 3
    world.commit()
    assert world.bodies() == [b"1", b"2", b"5", b"1"]


def test_records_without_a_producer_are_all_taken(world: World) -> None:
    assert [world.append(b"same"), world.append(b"same")] == [0, 1]


@pytest.mark.parametrize("come_back", ["restart", "kill"])
def test_a_restart_remembers_producers(world: World, come_back: str) -> None:
    for sequence in range(40):
        send(world, sequence + 1)
        world.commit()
    getattr(world, come_back)()
    assert send(world, 40) is None
    assert send(world, 41) == 40


def test_what_was_not_written_may_be_sent_again_after_a_crash(world: World) -> None:
    send(world, 1)
    world.commit()
    send(world, 2)
    world.kill()
    assert send(world, 2) == 1


@pytest.mark.parametrize("come_back", ["restart", "kill"])
def test_producers_outlive_their_records(world: World, come_back: str) -> None:
    send(world, 7)
    world.fill(60)
    world.retain(world.now_ms, max_bytes=0)
    getattr(world, come_back)()
    assert world.log.first_offset > 0
    assert send(world, 7) is None


@on_files
def test_producers_outlive_a_segment_that_was_removed_before_its_successor_had_an_index(world: World) -> None:
    send(world, 7)
    world.commit()
    world.log.checkpoint()
    world.append(b"after the index")
    world.commit()
    world.kill()
    assert world.retain(world.now_ms, max_bytes=0) == 1
    world.kill()
    assert world.bodies() == [b"after the index"]
    assert send(world, 7) is None


def test_too_many_active_producers_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRODUCERS_MAX", 2)
    for name in (b"a", b"b"):
        send(world, 1, name)
    with pytest.raises(TooMany, match="use fewer producer names"):
        send(world, 1, b"c")
    world.now_ms += PRODUCER_IDLE_MS - 1
    send(world, 2, b"b")
    world.now_ms += 1
    assert send(world, 1, b"c") == 3
    with pytest.raises(TooMany):
        send(world, 2, b"a")
    world.commit()
    world.restart()
    assert send(world, 1, b"c") is None


def test_packed_producers_keep_their_order() -> None:
    known = Producers()
    for number, name in enumerate([b"a", b"", b"c" * 255]):
        known.note(name, number, 10 * number)
    known.note(b"a", 9, 99)
    again = limits.unpack(known.pack(), len(known))
    assert again.pack() == known.pack()
    assert again.sequence(b"a") == 9
    assert again.sequence(b"unknown") is None
