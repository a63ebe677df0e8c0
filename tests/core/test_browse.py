"""Browsing page by page: what waits in its lane and what was given back, in one order."""

from hypothesis import given
from hypothesis import strategies as st

from leveret.core import browse
from leveret.core.queue import Queue
from tests.core.world import World, take

CHUNK = 512


def pages(queue: Queue, count: int) -> list[int]:
    """The numbers of all messages, in pages."""
    found: list[int] = []
    cursor: browse.Cursor | None = ()
    while cursor is not None:
        page, cursor = browse.ready_after(queue, cursor, count)
        assert len(page) <= count
        found += [held.seq for held in page]
    return found


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 9), st.data())
def test_pages_have_every_message_in_the_order_in_which_they_are_taken(
    sent: list[bool], count: int, data: st.DataObject
) -> None:
    world = World()
    queue = world.queue(max_priority=2)
    for later in sent:
        world.pass_ms(int(later))
        world.send(queue, priority=data.draw(st.integers(0, 2)))
    held = queue.take(data.draw(st.integers(0, len(sent))))
    for each in data.draw(st.permutations(held)):
        queue.nack(each, each.lease, data.draw(st.sampled_from([0, 0, 5])))
    world.pass_ms(data.draw(st.sampled_from([0, 5])))
    assert pages(queue, count) == [each.seq for each in queue.take(len(sent))]


def test_messages_that_were_given_back_are_found_by_their_place(world: World) -> None:
    queue = world.queue()
    count = 5 * CHUNK
    for _ in range(count):
        world.pass_ms(1)
        world.send(queue)
    held = queue.take(count)
    numbers = [each.seq for each in held]
    for each in [*held[::3], *held[2::3][::-1], *held[1::3]]:
        queue.nack(each, each.lease, 0)
    assert pages(queue, 100) == numbers
    page, cursor = browse.ready_after(queue, (), CHUNK)
    for each in page:
        browse.moved(browse.withdraw(queue, each))  # type: ignore[arg-type]
    assert cursor is not None
    assert browse.ready_after(queue, cursor, 1)[0][0].seq == numbers[CHUNK]
    assert [each.seq for each in take(queue, count)] == numbers[CHUNK:]
