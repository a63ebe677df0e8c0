"""Reservations: the same messages for the same start, acknowledged by moving on, kept over a restart, lost in time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.core import reservations as limits
from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, TooMany
from leveret.core.held import Held
from leveret.core.queue import Queue
from leveret.core.reservations import BYTES_MAX, LEASE_MS_MAX, MESSAGES_MAX, Reserved, Turns
from tests.core.world import START_MS, World, ready, taken, text

LEASE_MS = 60_000
BEFORE = START_MS - 1
"""Numbers begin with the time; tests count from 1."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[World]:
    """A world that can be restarted."""
    world = World(tmp_path)
    yield world
    world.close()


def reserve(
    world: World, start: int | None, count: int = 100, size: int = BYTES_MAX, group: str = "g", lease_ms: int = 0
) -> Reserved:
    start = start + BEFORE if start else start
    found = done(world.broker.reservations.reserve(world.again(), group, start, count, size, lease_ms))
    return found._replace(start=max(0, found.start - BEFORE), end=max(0, found.end - BEFORE))


def done(turns: Turns) -> Reserved:
    """The outcome of all turns."""
    while True:
        try:
            next(turns)
        except StopIteration as end:
            reserved: Reserved = end.value
            return reserved


def messages(world: World, number: int, at: int = 0, count: int = 100, group: str = "g") -> list[Held]:
    found = world.broker.reservations.get(world.again(), group).messages(number + BEFORE, at, count)
    return [held for held in found if held is not None]


def read(world: World, number: int, at: int = 0, count: int = 100, group: str = "g") -> str:
    return "".join(text(held) for held in messages(world, number, at, count, group))


def filled(world: World, bodies: str = "abcdef", **arguments: Any) -> Queue:
    queue = world.queue(**arguments)
    world.send_all(queue, bodies)
    return queue


def test_the_same_start_gets_the_same_messages_as_often_as_it_asks() -> None:
    world = World()
    queue = filled(world)
    first = reserve(world, 0, 3)
    world.send(queue, "z")
    assert (first.start, first.end, first.messages) == (0, 1, 3)
    assert reserve(world, 0, 100) == first
    assert reserve(world, None) == first
    assert [read(world, 1), read(world, 1, 1, 1), read(world, 1)] == ["abc", "b", "abc"]
    assert ready(queue) == "defz"


def test_moving_on_acknowledges_what_was_reserved() -> None:
    world = World()
    queue = filled(world)
    reserve(world, 0, 3)
    assert reserve(world, 1, 2)[:3] == (1, 2, 2)
    assert read(world, 2) == "de"
    assert queue.counts["acked"] == 3
    assert reserve(world, 2)[:3] == (2, 3, 1)
    assert reserve(world, 3) == (3, 3, 0, 0)
    assert (queue.counts["acked"], queue.leased, ready(queue)) == (6, 0, "")


def test_an_empty_queue_reserves_nothing_and_numbers_go_on() -> None:
    world = World()
    queue = filled(world, "")
    assert reserve(world, 0) == (0, 0, 0, 0)
    world.send(queue, "a")
    assert reserve(world, 0)[:3] == (0, 1, 1)


def test_bytes_bound_a_reservation_but_never_to_nothing() -> None:
    world = World()
    filled(world, "abcdef")
    assert reserve(world, 0, size=1).messages == 1
    size = reserve(world, 0).bytes
    assert reserve(world, 1, size=3 * size).messages == 3


def test_groups_do_not_share_messages() -> None:
    world = World()
    filled(world)
    reserve(world, 0, 3, group="a")
    reserve(world, 0, 3, group="b")
    assert (read(world, 1, group="a"), read(world, 1, group="b")) == ("abc", "def")


@pytest.mark.parametrize("start", [0, 1, 99])
def test_a_start_that_is_neither_here_nor_at_the_end_is_refused(start: int) -> None:
    world = World()
    filled(world)
    reserve(world, 0, 1)
    reserve(world, 1, 1)
    reserve(world, 2, 1)
    with pytest.raises(
        PreconditionFailed, match=f"is at {BEFORE + 2}, not at {start and BEFORE + start}.*choose another group"
    ):
        reserve(world, start)
    assert read(world, 3) == "c"


def test_no_clock_ends_a_reservation(disk: World) -> None:
    filled(disk)
    reserve(disk, 0, 3)
    for _ in range(3):
        disk.pass_ms(365 * 86_400_000)
        assert (ready(disk.again()), disk.broker.reservations.get(disk.again(), "g").expires_ms) == ("def", None)
        disk.restart()
    assert read(disk, 1) == "abc"
    assert reserve(disk, 1, 3)[:3] == (1, 2, 3)
    assert read(disk, 2) == "def"


def test_a_queue_that_expires_stays_while_it_has_a_reservation(disk: World) -> None:
    filled(disk, expires=1_000)
    reserve(disk, 0, 3)
    disk.pass_ms(5_000)
    assert read(disk, 1) == "abc"
    reserve(disk, 1, 0)
    disk.pass_ms(1_001)
    assert "q" not in disk.broker.topology.vhost("/").queues


def test_after_a_lease_the_reader_acknowledges_what_it_has_or_goes_on_with_it(disk: World) -> None:
    """Other clients may have the messages; those that none has are still the group's."""
    queue = filled(disk)
    reserve(disk, 0, 3, lease_ms=LEASE_MS)
    disk.pass_ms(LEASE_MS - 1)
    assert ready(queue) == "def"
    disk.pass_ms(1)
    assert (ready(queue), queue.leased, queue.counts["timed_out"]) == ("abcdef", 0, 3)
    assert reserve(disk, 0, 100, lease_ms=LEASE_MS)[:3] == (0, 1, 3)
    assert (read(disk, 1), ready(queue)) == ("abc", "def")
    disk.pass_ms(LEASE_MS)
    assert ready(queue) == "abcdef"
    assert reserve(disk, 1, 3, lease_ms=LEASE_MS)[:3] == (1, 2, 3)
    assert (read(disk, 2), ready(queue), queue.counts["acked"]) == ("def", "", 3)
    disk.restart()
    disk.pass_ms(LEASE_MS)
    assert taken(disk.again()) == "def"
    assert read(disk, 2) == ""
    assert reserve(disk, 2) == (2, 2, 0, 0)


def test_what_another_client_took_after_a_lease_is_a_gap() -> None:
    world = World()
    queue = filled(world)
    reserve(world, 0, 4, lease_ms=LEASE_MS)
    world.pass_ms(LEASE_MS)
    first, second = queue.take(2)
    queue.ack(first, first.lease)
    assert read(world, 1) == "cd"
    queue.nack(second, second.lease, 0)
    assert read(world, 1) == "bcd"[1:]
    assert reserve(world, 1, 100)[:3] == (1, 2, 3)
    assert (read(world, 2), queue.counts["acked"]) == ("bef", 3)


def test_a_renewed_reservation_stays() -> None:
    world = World()
    queue = filled(world)
    reserve(world, 0, 3, lease_ms=LEASE_MS)
    for _ in range(5):
        world.pass_ms(LEASE_MS - 1)
        world.broker.reservations.get(queue, "g").renew(LEASE_MS)
    assert read(world, 1) == "abc"
    world.pass_ms(LEASE_MS - 1)
    reserve(world, 0, lease_ms=LEASE_MS)
    world.pass_ms(LEASE_MS - 1)
    assert ready(queue) == "def"


def test_many_messages_are_leased_and_acknowledged_in_turns(disk: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In between, other clients come and go, and the broker may stop."""
    monkeypatch.setattr(limits, "TURN", 2)
    queue = filled(disk, "abcdefgh")
    turns = disk.broker.reservations.reserve(queue, "g", 0, 7, BYTES_MAX)
    next(turns)
    assert ready(queue) == "cdefgh"
    with pytest.raises(TooMany, match="another request reserves"):
        reserve(disk, 0)
    assert taken(queue, 1) == "c"
    assert done(turns)[2] == 7
    assert read(disk, 1) == "abdefgh"
    disk.restart()
    assert read(disk, 1) == "abdefgh"
    next(disk.broker.reservations.reserve(disk.again(), "g", START_MS, 7, BYTES_MAX))
    disk.restart()  # before the journal had the new position
    assert disk.again().counts["acked"] == 0
    assert read(disk, 1) in ("bdefgh", "abdefgh")
    assert reserve(disk, 1, 7)[:3] == (1, 2, 1)
    assert read(disk, 2) == "c"
    disk.broker.reservations.delete(disk.again(), "g")
    assert ready(disk.again()) == "c"


def test_a_group_that_is_released_in_turns_gives_back_everything(disk: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN", 2)
    filled(disk, "abcdefgh")
    reserve(disk, 0, 7)
    disk.broker.reservations.delete(disk.again(), "g")
    assert ready(disk.again()) == "abh"
    for _ in range(3):
        disk.pass_ms(1)
    assert ready(disk.again()) == "abcdefgh"
    turns = disk.broker.reservations.reserve(disk.again(), "g", 0, 7, BYTES_MAX)
    next(turns)
    disk.broker.delete_queue(disk.again())
    with pytest.raises(NotFound, match="deleted meanwhile"):
        next(turns)


def test_after_a_restart_the_same_messages_are_reserved_and_no_others_can_have_them(disk: World) -> None:
    queue = filled(disk, max_priority=5)
    disk.send(queue, "P", priority=5)
    first = reserve(disk, 0, 3)
    for again in (disk.restart, disk.compact, disk.restart, disk.restart):
        again()
        assert reserve(disk, 0) == first
        assert read(disk, 1) == "Pab"
    assert taken(disk.again()) == "cdef"
    disk.restart()
    assert reserve(disk, 1)[:3] == (1, 2, 4)
    disk.restart()
    assert read(disk, 2) == "cdef"
    assert reserve(disk, 2) == (2, 2, 0, 0)
    disk.restart()
    assert (ready(disk.again()), reserve(disk, 2).end) == ("", 2)


def test_a_reservation_survives_a_checkpoint(disk: World) -> None:
    filled(disk)
    reserve(disk, 0, 3)
    disk.commit()
    disk.disk().close()
    disk.open()
    assert (read(disk, 1), ready(disk.again())) == ("abc", "def")


def test_a_restart_is_no_further_delivery_and_begins_the_lease_anew(disk: World) -> None:
    filled(disk, "ab")
    reserve(disk, 0, lease_ms=LEASE_MS)
    for _ in range(2):
        disk.pass_ms(LEASE_MS - 1)
        disk.restart()
        disk.pass_ms(LEASE_MS - 1)
        assert (ready(disk.again()), disk.again().leased) == ("", 2)
        disk.pass_ms(1)
        assert ready(disk.again()) == "ab"
    disk.restart()
    assert [held.deliveries for held in messages(disk, 1)] == [1, 1]


def test_what_was_not_durable_is_reserved_anew_and_nothing_is_lost(disk: World) -> None:
    filled(disk)
    disk.commit()
    reserve(disk, 0, 3)
    disk.crash()
    assert ready(disk.again()) == "abcdef"
    reserve(disk, 0, 3)
    disk.commit()
    reserve(disk, 1, 3)
    disk.crash()
    assert (read(disk, 1), ready(disk.again())) == ("abc", "def")
    assert reserve(disk, 1, 3)[:3] == (1, 2, 3)
    assert read(disk, 2) == "def"


def test_a_group_of_messages_waits_for_a_reservation_after_a_restart_too(disk: World) -> None:
    queue = disk.queue(message_groups="fifo")
    for body, group in ("a1", 1), ("a2", 1), ("b1", 2):
        disk.send(queue, body, group=group)
    reserve(disk, 0, 1)
    assert read(disk, 1) == "a1"
    disk.restart()
    assert read(disk, 1) == "a1"
    assert taken(disk.again()) == "b1"
    reserve(disk, 1, 1)
    assert read(disk, 2) == "a2"


def test_transient_messages_leave_a_gap_after_a_restart(disk: World) -> None:
    queue = filled(disk, "a")
    disk.send(queue, "t", persistent=False)
    disk.send(queue, "b")
    reserve(disk, 0)
    assert read(disk, 1) == "atb"
    disk.restart()
    assert [read(disk, 1), read(disk, 1, 1, 1), read(disk, 1, 2, 1)] == ["ab", "", "b"]
    assert reserve(disk, 1) == (1, 1, 0, 0)


def test_a_deleted_group_gives_back_what_it_had_and_begins_anew(disk: World) -> None:
    filled(disk)
    reserve(disk, 0, 3)
    disk.broker.reservations.delete(disk.again(), "g")
    assert ready(disk.again()) == "abcdef"
    with pytest.raises(NotFound, match="no group 'g' reads queue 'q'"):
        read(disk, 1)
    disk.restart()
    assert disk.broker.reservations.of(disk.again()) == []
    assert reserve(disk, 0, 1).end == 1


def test_a_deleted_queue_takes_its_groups_along(disk: World) -> None:
    filled(disk)
    reserve(disk, 0, 3)
    disk.broker.delete_queue(disk.again())
    disk.queue()
    assert disk.broker.reservations.of(disk.again()) == []
    disk.pass_ms(2 * LEASE_MS)
    disk.restart()
    assert reserve(disk, 0) == (0, 0, 0, 0)


def test_a_queue_that_does_not_last_journals_no_reservation(disk: World) -> None:
    queue = disk.queue("temporary", durable=False)
    disk.send(queue, "a")
    done(disk.broker.reservations.reserve(queue, "g", 0, 1, BYTES_MAX))
    disk.restart()
    assert "temporary" not in disk.broker.topology.vhost("/").queues


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    queue = filled(world)
    reserve_ = world.broker.reservations.reserve
    for count, size, lease_ms, start in (
        (-1, 1, LEASE_MS, 0),
        (MESSAGES_MAX + 1, 1, LEASE_MS, 0),
        (1, 0, LEASE_MS, 0),
        (1, BYTES_MAX + 1, LEASE_MS, 0),
        (1, 1, LEASE_MS_MAX + 1, 0),
        (1, 1, 1, 0),
        (1, 1, LEASE_MS, -1),
    ):
        with pytest.raises(InvalidArgument):
            done(reserve_(queue, "g", start, count, size, lease_ms))
    world.send_all(queue, "ab")
    monkeypatch.setattr(limits, "GROUPS_MAX", 1)
    reserve(world, 0, 1, group="one")
    with pytest.raises(TooMany, match=r"of all queues.*delete"):
        reserve(world, 0, 1, group="two")
    reserve(world, 0, 1, group="one")


def test_all_reservations_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    filled(world)
    monkeypatch.setattr(limits, "RESERVED_MAX", 5)
    assert reserve(world, 0, 3, group="one").messages == 3
    assert reserve(world, 0, 3, group="two").messages == 2
    with pytest.raises(TooMany, match="5 messages are reserved"):
        reserve(world, 0, 3, group="three")
    assert reserve(world, 1, 3, group="one").messages == 1
    assert reserve(world, 0, 0, group="three").messages == 0


def reserve_as(world: World, user: str, group: str, queue: str = "q") -> Reserved:
    return done(world.broker.reservations.reserve(world.again(queue), group, 0, 1, BYTES_MAX, user=user))


def test_one_user_cannot_take_all_groups(disk: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GROUPS_MAX": 6,
        "GROUPS_USER_MAX": 3,
        "GROUPS_QUEUE_MAX": 3,
        "GROUPS_USER_QUEUE_MAX": 2,
    }.items():
        monkeypatch.setattr(limits, name, value)
    for name in ("q", "r"):
        disk.send_all(disk.queue(name), "abcdef")
    for number in range(2):
        reserve_as(disk, "a", f"a{number}")
    for _ in range(2):
        with pytest.raises(TooMany, match="of user 'a' on queue 'q'"):
            reserve_as(disk, "a", "a2")
        disk.restart()
    reserve_as(disk, "a", "a2", "r")
    with pytest.raises(TooMany, match="of user 'a', and the limit is 3"):
        reserve_as(disk, "a", "a3", "r")
    reserve_as(disk, "b", "b")
    with pytest.raises(TooMany, match="of queue 'q'"):
        reserve_as(disk, "b", "c")
    reserve_as(disk, "a", "a0")


def test_a_group_that_never_reserved_anything_takes_no_room() -> None:
    world = World()
    queue = filled(world, "")
    for number in range(limits.GROUPS_MAX + 1):
        reserve_as(world, "a", f"g{number}")
    assert world.broker.reservations.of(queue) == []
    world.send(queue, "a")
    with pytest.raises(PreconditionFailed):
        reserve(world, 5)
    assert (reserve(world, 0).end, len(world.broker.reservations.of(queue))) == (1, 1)


def test_a_reader_of_a_group_that_was_released_is_refused_whatever_the_new_group_has(disk: World) -> None:
    filled(disk)
    old = [reserve(disk, None, 1), reserve(disk, 1, 1)][-1]
    disk.broker.reservations.delete(disk.again(), "g")
    disk.pass_ms(2)
    for start in (None, START_MS + 2):
        done(disk.broker.reservations.reserve(disk.again(), "g", start, 1, BYTES_MAX))
    for start in (old.start, old.end):
        with pytest.raises(PreconditionFailed, match="an operator released"):
            reserve(disk, start)
