"""Which priority comes next: strict, weighted, ageing; and that a hidden message blocks nobody."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from leveret.core import browse
from tests.core.world import World, ack, ready, take, taken, text


def test_the_highest_priority_comes_first_and_equals_in_the_order_of_their_arrival(world: World) -> None:
    queue = world.queue(max_priority=255)
    for body, priority in (("a", 0), ("b", 5), ("c", 255), ("d", 5), ("e", 0), ("f", 64)):
        world.send(queue, body, priority=priority)
    assert browse.depth_by_priority(queue) == {0: 2, 5: 2, 64: 1, 255: 1}
    assert ready(queue) == taken(queue) == "cfbdae"


@given(st.lists(st.integers(0, 255), max_size=60))
def test_strict_order_is_a_stable_sort(priorities: list[int]) -> None:
    world = World()
    queue = world.queue(max_priority=255)
    numbers = [world.send(queue, "m", priority=priority) for priority in priorities]
    expected = sorted(zip(numbers, priorities, strict=True), key=lambda each: -each[1])
    assert [(held.seq, held.priority) for held in queue.take(100)] == expected


def test_a_priority_above_the_maximum_counts_as_the_maximum(world: World) -> None:
    queue = world.queue(max_priority=3)
    world.send(queue, "a", priority=3)
    world.send(queue, "b", priority=200)
    assert taken(queue) == "ab"


def test_a_quorum_queue_has_32_priorities_without_an_argument(world: World) -> None:
    queue = world.queue(queue_type="quorum")
    for body, priority in (("a", 0), ("b", 9), ("c", 31), ("d", 200), ("e", 9)):
        world.send(queue, body, priority=priority)
    assert browse.depth_by_priority(queue) == {0: 1, 9: 2, 31: 2}
    assert taken(queue) == "cdbea"


def test_priorities_of_a_quorum_queue_survive_a_restart(disk: World) -> None:
    queue = disk.queue(queue_type="quorum")
    for body, priority in (("a", 0), ("b", 9), ("c", 31)):
        disk.send(queue, body, priority=priority)
    disk.restart()
    assert taken(disk.again()) == "cba"


def test_a_queue_without_priorities_is_fifo(world: World) -> None:
    queue = world.queue()
    world.send(queue, "a", priority=1)
    world.send(queue, "b", priority=9)
    assert taken(queue) == "ab"


def test_ten_thousand_messages_of_one_millisecond_stay_in_order(world: World) -> None:
    queue = world.queue(max_priority=2)
    sent = [(world.send(queue, "m", priority=number % 3), number % 3) for number in range(10_000)]
    expected = [seq for wanted in (2, 1, 0) for seq, priority in sent if priority == wanted]
    assert [held.seq for held in queue.take(10_000)] == expected


def test_weighted_turns_are_in_proportion_to_the_priority(world: World) -> None:
    queue = world.queue(max_priority=3, priority_mode="weighted")
    for priority in (0, 1, 3):
        world.send_all(queue, "m" * 70, priority=priority)
    first = Counter(held.priority for held in queue.take(70))
    assert first == {3: 40, 1: 20, 0: 10}


def test_ageing_lets_a_waiting_message_overtake_newer_ones_of_higher_priority(world: World) -> None:
    queue = world.queue(max_priority=2, priority_mode="ageing", priority_ageing=1_000)
    world.send(queue, "old")
    world.pass_ms(1_999)
    world.send(queue, "new", priority=2)
    assert text(take(queue)[0]) == "new"
    world.send(queue, "new", priority=2)
    world.pass_ms(1)
    world.send(queue, "newer", priority=2)
    assert text(take(queue)[0]) == "new"
    assert text(take(queue)[0]) == "newer"
    world.pass_ms(1)
    world.send(queue, "newest", priority=2)
    assert text(take(queue)[0]) == "old"


def test_ageing_never_starves_a_low_priority(world: World) -> None:
    queue = world.queue(max_priority=9, priority_mode="ageing", priority_ageing=10)
    world.send(queue, "low")
    rounds = 0
    while True:
        world.send(queue, "high", priority=9)
        world.pass_ms(1)
        held = take(queue)[0]
        if text(held) == "low":
            break
        ack(held)
        rounds += 1
    assert rounds <= 91


def test_a_delayed_message_of_high_priority_does_not_block_a_visible_one(world: World) -> None:
    queue = world.queue(max_priority=9)
    world.send(queue, "high", priority=9, due_ms=world.now_ms + 1_000)
    world.send(queue, "low")
    assert taken(queue) == "low"
    world.pass_ms(1_000)
    assert taken(queue) == "high"
