"""What a replay must get right whatever compaction did to the log before."""

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
