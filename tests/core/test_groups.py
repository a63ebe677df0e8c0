"""Message groups: one in flight, in order, each group its turn."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.held import Held
from leveret.core.policy import Policy
from leveret.core.publish import group_key
from tests.core.world import World, ack, ready, take, taken, text

ONE, TWO, THREE = (group_key(name) for name in ("one", "two", "three"))


def test_a_group_has_one_message_in_flight_and_keeps_its_order(world: World) -> None:
    queue = world.queue(message_groups="fifo")
    world.send_all(queue, "abc", group=ONE)
    for body in "abc":
        held = take(queue, 5)
        assert [text(each) for each in held] == [body]
        ack(held[0])
    assert queue.depth == 0


def test_groups_take_turns_however_much_one_of_them_has(world: World) -> None:
    queue = world.queue(message_groups="fair")
    world.send_all(queue, "aaaaaa", group=ONE)
    world.send_all(queue, "bb", group=TWO)
    world.send_all(queue, "cc", group=THREE)
    assert taken(queue) == "abcabcaaaa"


def test_ungrouped_messages_take_part(world: World) -> None:
    queue = world.queue(message_groups="fifo")
    world.send_all(queue, "ab", group=ONE)
    world.send_all(queue, "xy")
    assert sorted(taken(queue)) == ["a", "x", "y"]


def test_a_message_that_backs_off_blocks_only_its_group(world: World) -> None:
    queue = world.queue(message_groups="fifo")
    world.send_all(queue, "ab", group=ONE)
    world.send_all(queue, "xy", group=TWO)
    held = take(queue)[0]
    queue.nack(held, held.lease, 100)
    assert taken(queue) == "x"
    world.pass_ms(100)
    assert taken(queue) == "a"


def test_a_delayed_message_blocks_nothing(world: World) -> None:
    queue = world.queue(message_groups="fifo")
    world.send(queue, "later", group=ONE, due_ms=world.now_ms + 100)
    world.send(queue, "now", group=ONE)
    assert taken(queue) == "now"


def test_a_timed_out_lease_lets_its_group_go_on_with_the_same_message(world: World) -> None:
    queue = world.queue(message_groups="fifo")
    world.send_all(queue, "ab", group=ONE)
    take(queue, 1, 100)
    world.pass_ms(100)
    assert taken(queue) == "a"


def test_an_expired_message_leaves_the_turn_to_the_next(world: World) -> None:
    queue = world.queue(message_groups="fifo")
    world.send(queue, "a", group=ONE, expiry_ms=world.now_ms + 10)
    world.send(queue, "b", group=ONE)
    world.pass_ms(10)
    assert taken(queue) == "b"


def test_groups_can_be_made_strict_at_run_time(world: World) -> None:
    world.broker.set_policy("/", Policy("groups", ".*", definition={"message-groups": "fair"}))
    queue = world.queue()
    world.send_all(queue, "abc", group=ONE)
    held = take(queue)[0]
    world.broker.set_policy("/", Policy("groups", ".*", definition={"message-groups": "fifo"}))
    assert taken(queue) == ""
    ack(held)
    assert taken(queue) == "b"
    world.broker.set_policy("/", Policy("groups", ".*", definition={"message-groups": "fair"}))
    assert taken(queue) == "c"


def test_a_group_that_backed_off_goes_on_after_a_restart(disk: World) -> None:
    queue = disk.queue(message_groups="fifo")
    disk.send_all(queue, "ab", group=ONE)
    held = take(queue)[0]
    queue.nack(held, held.lease, 100)
    disk.pass_ms(100)
    ack(take(queue)[0])
    disk.restart()
    assert taken(disk.again()) == "b"


def test_a_group_still_waits_after_a_restart_for_what_backs_off(disk: World) -> None:
    queue = disk.queue(message_groups="fifo")
    disk.send_all(queue, "ab", group=ONE)
    held = take(queue)[0]
    queue.nack(held, held.lease, 100)
    for checkpoint in (False, True):
        if checkpoint:
            disk.disk().checkpoint()
        disk.restart()
        queue = disk.again()
        assert taken(queue) == ""
    disk.pass_ms(100)
    assert taken(queue) == "a"


@given(
    st.lists(st.tuples(st.sampled_from([0, ONE, TWO, THREE]), st.integers(0, 2)), max_size=20),
    st.lists(st.integers(0, 5), max_size=40),
)
def test_each_group_is_delivered_in_order_and_nothing_gets_stuck(
    sent: list[tuple[int, int]], actions: list[int]
) -> None:
    world = World()
    queue = world.queue(message_groups="fifo", max_priority=2)
    groups = {world.send(queue, "m", group=group, priority=priority): group for group, priority in sent}
    done: list[int] = []
    for action in [*actions, *([0] * len(sent))]:
        for held in queue.take(4):
            group = groups[held.seq]
            older = [seq for seq, other in groups.items() if other == group and seq < held.seq and seq not in done]
            assert group == 0 or not older
            if action < 4:
                ack(held)
                done.append(held.seq)
            else:
                queue.nack(held, held.lease, (action - 4) * 10)
        world.pass_ms(10)
    assert sorted(done) == sorted(groups)
    assert ready(queue) == ""


def test_one_call_may_take_several_messages_of_an_ordered_group_and_then_of_the_next(world: World) -> None:
    queue = world.queue(message_groups="fifo-batch")
    world.send_all(queue, "ab", group=ONE)
    world.send_all(queue, "xyz", group=TWO)
    assert taken(queue, 4) == "abxy"
    assert taken(queue) == ""


def test_a_group_of_which_a_batch_was_taken_waits_for_all_of_it(world: World) -> None:
    queue = world.queue(message_groups="fifo-batch")
    world.send_all(queue, "abc", group=ONE)
    first, second = take(queue, 2, 100)
    queue.extend(first, first.lease, 1_000)
    world.pass_ms(100)
    assert taken(queue) == ""
    ack(first)
    assert taken(queue) == "bc"
    assert second.deliveries == 2


def test_what_returns_goes_before_later_messages_in_flight_and_takes_nothing_new_along(world: World) -> None:
    queue = world.queue(message_groups="fifo-batch")
    world.send_all(queue, "abcde", group=ONE)
    first, second, third = take(queue, 3, 100)
    for each in (second, first):
        queue.nack(each, each.lease, 0)
    assert taken(queue, 10) == "ab"
    ack(third)
    assert taken(queue) == ""


def test_a_delayed_message_that_becomes_due_waits_for_the_message_in_flight(world: World) -> None:
    queue = world.queue(message_groups="fifo-batch")
    world.send(queue, "late", group=ONE, due_ms=world.now_ms + 10)
    world.send(queue, "early", group=ONE)
    (early,) = take(queue, 1, 1_000)
    world.pass_ms(10)
    assert taken(queue) == ""
    queue.nack(early, early.lease, 0)
    assert [text(each) for each in take(queue, 10)] == ["early", "late"]


def test_what_was_taken_under_other_rules_holds_an_ordered_group_up(world: World) -> None:
    queue = world.queue(message_groups="fair")
    world.send_all(queue, "abc", group=ONE)
    first, second = take(queue, 2)
    queue.apply(replace(queue.policy, groups="fifo-batch"))
    queue.nack(first, first.lease, 0)
    assert taken(queue) == ""
    ack(second)
    assert taken(queue, 10) == "ac"


def test_many_messages_of_a_group_in_flight_return_in_any_order(world: World) -> None:
    queue = world.queue(message_groups="fifo-batch")
    bodies = [f"{number:03}" for number in range(300)]
    for body in bodies:
        world.send(queue, body, group=ONE)
    held = take(queue, 200)
    for each in (*held[100:150], *reversed(held[:100])):
        queue.nack(each, each.lease, 0)
    assert [text(each) for each in take(queue, 300)] == bodies[:150]


@given(st.lists(st.sampled_from(["take", "nack", "ack", "late"]), max_size=40), st.integers(0, 5))
def test_batches_keep_the_order_of_each_group(steps: list[str], size: int) -> None:
    world = World()
    queue = world.queue(message_groups="fifo-batch")
    for number in range(12):
        world.send(queue, f"{number:02}", group=(ONE, TWO, THREE)[number % 3])
    held: list[Held] = []
    for step in steps:
        if step == "take":
            in_flight = {group: [each.seq for each in held if each.group == group] for group in (ONE, TWO, THREE)}
            got = take(queue, size, 1_000)
            for group, others in in_flight.items():
                mine = [each.seq for each in got if each.group == group]
                assert mine == sorted(mine)
                assert not mine or not others or mine[-1] < min(others)
            held += got
        elif step == "late":
            world.pass_ms(1_000)
            held = []
        elif held:
            last = held.pop()
            ack(last) if step == "ack" else queue.nack(last, last.lease, 0)
