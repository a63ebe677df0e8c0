"""What a replay must get right whatever compaction did to the log before."""

from leveret.core import browse
from leveret.core.dedup import digest
from tests.core.world import World, ready

SEGMENT_BYTES = 1024


def test_a_record_stays_alive_behind_an_older_message_that_was_copied_forward(disk: World) -> None:
    queue = disk.queue()
    disk.send(queue, "a")
    disk.send(disk.queue("other"), "x" * SEGMENT_BYTES)
    disk.commit()
    disk.send(queue, "b")
    disk.send(disk.queue("other"), "x" * SEGMENT_BYTES)
    disk.compact_oldest()
    disk.restart()
    disk.compact_oldest()
    disk.restart()
    assert ready(disk.again()) == "ab"


def test_the_number_of_a_transient_message_is_not_given_again_while_a_key_names_it(disk: World) -> None:
    key = digest("key")
    first = disk.send(disk.queue(), "a", persistent=False, key=key)
    disk.restart()
    assert disk.send(disk.again(), "b") > first
    assert disk.send(disk.again(), "a", key=key) == first


def test_a_message_that_backs_off_keeps_its_place_though_its_queue_is_defined_later_in_the_log(disk: World) -> None:
    queue = disk.queue(delay=40)
    disk.send(disk.queue("other"), "x" * SEGMENT_BYTES)
    disk.commit()
    disk.send(queue, "a")
    disk.pass_ms(40)
    (held,) = queue.take(1)
    queue.nack(held, held.lease, 1_000)
    disk.compact_oldest()
    disk.restart()
    (found,) = browse.holdings(disk.again(), "backing-off")
    assert found.ready_ms == held.ready_ms
