from leveret.core import browse
from leveret.core.tally import COUNTERS, Tally, column, oldest_ms, published_by_priority, times
from tests.core.world import START_MS, World, ack, take


def test_columns_have_the_counters_of_each_queue(world: World) -> None:
    first, second = world.queue("first"), world.queue("second")
    world.send_all(first, "abc")
    ack(*take(first))
    queues = [first, second]
    assert {name: column(queues, name) for name in COUNTERS} == {
        name: [first.counts[name], second.counts[name]] for name in COUNTERS
    }
    assert column(queues, "published") == [3, 0]


def test_a_message_waits_until_its_first_delivery_and_is_processed_until_it_is_settled(world: World) -> None:
    queue = world.queue()
    assert times(queue) is None
    world.send(queue)
    world.pass_ms(100)
    (held,) = take(queue)
    world.pass_ms(3)
    queue.nack(held, held.lease, 0)
    (held,) = take(queue)
    world.pass_ms(2_000)
    ack(held)
    known = times(queue)
    assert known is not None
    waiting, processing = known
    assert (waiting.sum, sum(waiting.buckets)) == (100, 1)  # the second delivery is none that it waited for
    assert (processing.sum, sum(processing.buckets)) == (2_000, 1)


def test_a_scheduled_message_waits_from_when_it_is_due(world: World) -> None:
    queue = world.queue()
    world.send(queue, due_ms=START_MS + 60_000)
    assert oldest_ms(queue) is None
    world.pass_ms(60_050)
    assert oldest_ms(queue) == START_MS + 60_000
    take(queue)
    known = times(queue)
    assert known is not None
    assert known[0].sum == 50


def test_the_oldest_is_found_in_every_priority_and_group(world: World) -> None:
    queue = world.queue(max_priority=9, message_groups="fifo")
    world.send(queue, group=5)
    world.pass_ms(10)
    world.send(queue, priority=9)
    assert oldest_ms(queue) == START_MS
    world.send(queue, group=5)
    (first,) = [held for held in take(queue, 2) if held.group]
    world.pass_ms(10)
    ack(first)
    assert oldest_ms(queue) == START_MS + 10


def test_a_message_that_was_given_back_is_as_old_as_before(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "a")
    (held,) = take(queue)
    world.pass_ms(10)
    world.send(queue)
    queue.nack(held, held.lease, 0)
    assert oldest_ms(queue) == START_MS


def test_all_queues_are_added_up(world: World) -> None:
    first, second = world.queue("first", max_priority=5), world.queue("second")
    world.send_all(first, "ab", priority=3)
    world.send(second)
    world.send(second, due_ms=START_MS + 1)
    held, back = take(first, 2)
    first.nack(back, back.lease, 1_000)
    world.send(first, priority=5)
    tally = Tally()
    tally.add([first, second])
    assert (tally.queues, tally.ready, tally.leased, tally.scheduled, tally.backing_off) == (2, 2, 1, 1, 1)
    assert tally.by_priority == {0: 1, 5: 1}
    assert tally.oldest_ms == START_MS
    assert tally.counts["published"] == 5
    assert held.lease


def test_what_came_is_counted_by_priority(world: World) -> None:
    first, second = world.queue("first", max_priority=5), world.queue("second")
    assert (published_by_priority(first), published_by_priority(second)) == ({}, {})
    world.send_all(first, "ab", priority=3)
    world.send(first, priority=9)  # as high as it gets
    world.send(first)
    world.send(first, priority=1, due_ms=START_MS + 1)
    world.send(second, priority=7)
    take(first, 2)
    assert published_by_priority(first) == {0: 1, 1: 1, 3: 2, 5: 1}
    assert published_by_priority(second) == {0: 1}
    tally, kept = Tally(), Tally()
    tally.add([first, second])
    assert tally.published_by_priority == {0: 2, 1: 1, 3: 2, 5: 1}
    kept.merge(tally)
    assert kept.published_by_priority == tally.published_by_priority


def test_what_a_deleted_queue_has_counted_stays(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "abc")
    world.pass_ms(7)
    ack(*take(queue))
    world.broker.delete_queue(queue)
    tally = Tally()
    tally.merge(world.broker.departed["classic"])
    assert (tally.counts["published"], tally.counts["acked"], tally.waiting.sum) == (3, 1, 7)
    assert (tally.queues, tally.ready, tally.oldest_ms) == (0, 0, None)


def test_a_purge_of_everything_forgets_no_times(world: World) -> None:
    queue = world.queue()
    world.send(queue)
    take(queue)
    before = times(queue)
    browse.purge(queue, True)
    world.send(queue)
    assert times(queue) == before
