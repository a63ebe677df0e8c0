"""What a replay must get right whatever compaction did to the log before."""

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
