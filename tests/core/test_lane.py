"""Long lanes, through the verbs of a queue: pages, cold pages, holes, and the heap of those given back."""

from hypothesis import given
from hypothesis import strategies as st

from leveret.core import browse
from leveret.core.properties import Properties, encode_header
from tests.core.world import World, ack, take

HEADER = encode_header(Properties(), 0)
PAGE = 4_096


def filled(world: World, count: int) -> list[int]:
    """The numbers of many messages."""
    return world.broker.send_many(world.queue(), HEADER, [b"m"] * count)


def test_a_lane_of_many_pages_is_taken_in_order(world: World) -> None:
    numbers = filled(world, 6 * PAGE + 3)
    queue = world.again()
    found: list[int] = []
    while queue.depth:
        held = queue.take(1_000)
        found += [each.seq for each in held]
        for each in held:
            ack(each)
    assert found == numbers
    assert not world.broker.journal.bodies


def test_a_lane_that_is_filled_while_it_is_emptied_stays_in_order(world: World) -> None:
    queue, expected, found = world.queue(), [], []
    for _ in range(20):
        expected += filled(world, 1_500)
        found += [held.seq for held in queue.take(1_400)]
    found += [held.seq for held in queue.take(9_999)]
    assert found == expected


def test_browsing_pages_through_cold_pages_without_changing_them(world: World) -> None:
    numbers = filled(world, 7 * PAGE)
    queue, found = world.again(), []
    cursor: browse.Cursor | None = ()
    while cursor is not None:
        held, cursor = browse.ready_after(queue, cursor, 5_000)
        found += [each.seq for each in held]
    assert found == numbers
    assert [held.seq for held in queue.take(2)] == numbers[:2]


@given(st.sets(st.integers(0, 6 * PAGE - 1), max_size=30))
def test_messages_leave_from_the_middle_of_any_page(gone: set[int]) -> None:
    world = World()
    numbers = filled(world, 6 * PAGE)
    queue = world.again()
    everything, _ = browse.ready_after(queue, (), 9 * PAGE)
    for index in gone:
        held = browse.withdraw(queue, everything[index])
        assert held is not None
        assert held.seq == numbers[index]
        browse.moved(held)
    assert browse.withdraw(queue, everything[min(gone)]) is None if gone else True
    assert queue.depth == len(numbers) - len(gone)
    assert [held.seq for held in take(queue, 9 * PAGE)] == [
        number for index, number in enumerate(numbers) if index not in gone
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=40))
def test_deadlines_end_in_the_order_of_their_time(leases: list[tuple[int, int]]) -> None:
    world = World()
    filled(world, len(leases))
    queue = world.again()
    ends: dict[int, int] = {}
    for first, extended in leases:
        held = queue.take(1, first)[0]
        ends[held.seq] = first
        if extended:
            queue.extend(held, held.lease, extended)
            ends[held.seq] = extended
    for now_ms in range(6):
        assert world.broker.next_deadline_ms == min(
            (world.now_ms - now_ms + end for end in ends.values() if end >= now_ms), default=None
        )
        world.broker.tick(world.now_ms)
        expected = sorted(seq for seq, end in ends.items() if end <= now_ms)
        assert [held.seq for held in browse.ready_after(queue, (), 100)[0]] == expected
        world.now_ms += 1


def test_a_life_of_many_years_is_kept_to_the_second(world: World) -> None:
    queue, year_ms = world.queue(), 365 * 24 * 3600 * 1000
    world.send(queue, "m", expiry_ms=world.now_ms + year_ms + 1)
    world.pass_ms(year_ms)
    assert queue.depth == 1
    world.pass_ms(1_001)
    assert queue.depth == 0


def test_many_out_of_order_expiries_of_messages_that_left_are_swept(world: World) -> None:
    queue = world.queue(max_priority=1)
    world.send(queue, "stays", expiry_ms=world.now_ms + 10_000)
    for number in range(4_000):
        world.send_all(queue, "mm", expiry_ms=world.now_ms + 9_000 - number, priority=1)
        for held in queue.take(2):
            ack(held)
    assert queue.depth == 1
    world.pass_ms(10_000)
    assert (queue.depth, queue.counts["expired"]) == (0, 1)


def test_a_long_lane_survives_checkpoints_and_what_happens_between_them(disk: World) -> None:
    numbers = filled(disk, 6 * PAGE)
    disk.disk().checkpoint()
    queue = disk.again()
    everything, _ = browse.ready_after(queue, (), 9 * PAGE)
    cold = browse.withdraw(queue, everything[3 * PAGE])
    assert cold is not None
    browse.moved(cold)
    for held in queue.take(PAGE + 1):
        ack(held)
    disk.disk().checkpoint()
    disk.restart()
    expected = [number for number in numbers[PAGE + 1 :] if number != cold.seq]
    assert [held.seq for held in disk.again().take(9 * PAGE)] == expected


def test_a_tick_does_a_bounded_amount_of_work_and_says_that_there_is_more(world: World) -> None:
    queue = world.queue()
    for _ in range(10_001):
        world.send(queue, "m", due_ms=world.now_ms + 1)
    world.now_ms += 1
    assert world.broker.tick(world.now_ms)
    assert queue.scheduled == 1
    assert not world.broker.tick(world.now_ms)
    assert queue.depth == 10_001
