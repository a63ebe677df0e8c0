"""Group commit: who waits for what, who shares a sync, and what a failure does to all of them."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from leveret.core.errors import JournalFailed
from leveret.storage.journal.commit import IDLE_SECONDS, stop_process
from tests.storage.journal.world import FaultyDisk, World
from tests.waiting import PATIENCE_S, wait_until


class GatedDisk(FaultyDisk):
    """A disk whose syncs wait until they are let through."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.closed = False
        self.began = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def datasync(self, fd: int) -> None:
        if self.closed:
            self.began.release()
            self.go.acquire()
        super().datasync(fd)


def syncing(path: Path) -> tuple[GatedDisk, World, int]:
    """A disk amid a sync that waits, whose it is, and the frame that is synced, with one message."""
    disk = GatedDisk(path)
    world = World(disk, threaded=True)
    disk.closed = True
    with world.store.lock:
        world.publish(b"the first holds the disk")
        seq = world.journal.pending
        world.commit.kick()
    disk.began.acquire()
    return disk, world, seq


def test_a_publisher_waits_for_its_frame(tmp_path: Path) -> None:
    disk, world, seq = syncing(tmp_path)
    assert world.journal.durable < seq
    outcomes: list[JournalFailed | None] = []
    world.commit.notify(seq, outcomes.append)
    assert outcomes == []
    disk.closed = False
    disk.go.release()
    world.commit.wait(seq)
    world.close()
    assert outcomes == [None]
    assert world.journal.durable >= seq


def test_what_comes_while_a_sync_runs_is_the_next_frame(tmp_path: Path) -> None:
    disk, world, first = syncing(tmp_path)
    for _ in range(100):
        with world.store.lock:
            world.publish(b"later")
            assert world.journal.pending == first + 1
            world.commit.kick()
    disk.closed = False
    disk.go.release()
    world.commit.wait(first + 1)
    assert len(world.bodies()[1]) == 101
    world.close()


def test_what_nobody_asked_for_waits_for_a_frame_that_somebody_asked_for(tmp_path: Path) -> None:
    disk, world, first = syncing(tmp_path)
    with world.store.lock:
        world.publish(b"not asked for")
    disk.go.release()
    world.commit.wait(first)
    assert not disk.began.acquire(timeout=2 * IDLE_SECONDS)
    disk.closed = False
    with world.store.lock:
        world.publish(b"asked for, too")
        assert world.commit.pending == first + 1
    world.commit.wait(first + 1)
    assert len(world.bodies()[1]) == 3
    world.close()


def test_what_is_asked_for_while_a_sync_runs_is_written_after_it(tmp_path: Path) -> None:
    disk, world, _ = syncing(tmp_path)
    with world.store.lock:
        world.publish(b"waited for")
        seq = world.commit.pending
    waiter = threading.Thread(target=world.commit.wait, args=(seq,))
    waiter.start()
    disk.closed = False
    disk.go.release()
    waiter.join()
    assert world.journal.durable >= seq
    world.close()


def test_many_threads_share_syncs(tmp_path: Path) -> None:
    disk, world, _ = syncing(tmp_path)
    started = threading.Barrier(33)

    def send() -> None:
        with world.store.lock:
            world.publish(b"one of many")
            seq = world.journal.pending
            world.commit.kick()
        started.wait()
        world.commit.wait(seq)

    threads = [threading.Thread(target=send) for _ in range(32)]
    for thread in threads:
        thread.start()
    started.wait()
    disk.closed = False
    syncs = disk.calls.count("datasync")
    disk.go.release()
    for thread in threads:
        thread.join()
    assert disk.calls.count("datasync") == syncs + 1
    assert world.store.syncs == syncs + 1
    assert len(world.bodies()[1]) == 33
    world.close()


def test_records_are_readable_before_they_are_written(tmp_path: Path) -> None:
    disk = GatedDisk(tmp_path)
    world = World(disk, threaded=True, cache_bytes=1)
    disk.closed = True
    with world.store.lock:
        in_flight = world.publish(b"in flight" * 100)
        world.commit.kick()
    disk.began.acquire()
    with world.store.lock:
        sealed = world.publish(b"sealed" * 100)
        world.journal.seal()
        appended = world.publish(b"open" * 100)
        assert world.journal.bodies == {}
        assert world.state.read(1, in_flight).body == b"in flight" * 100
        assert world.state.read(1, sealed).body == b"sealed" * 100
        assert world.state.read(1, appended).body == b"open" * 100
    disk.closed = False
    disk.go.release()
    world.commit.flush()
    assert set(world.bodies()[1].values()) == {b"in flight" * 100, b"sealed" * 100, b"open" * 100}
    world.close()


@pytest.mark.parametrize("call", ["write", "datasync"])
@pytest.mark.parametrize("threaded", [False, True])
def test_a_failure_reaches_every_waiter_and_is_not_tried_again(tmp_path: Path, call: str, threaded: bool) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, threaded=threaded)
    world.commit.flush()
    world.durably(b"safe")
    disk.failing[call] = errno.EIO
    outcomes: list[JournalFailed | None] = []
    with world.store.lock:
        world.publish(b"lost")
        seq = world.journal.pending
        world.commit.notify(seq, outcomes.append)
        world.commit.kick()
    with pytest.raises(JournalFailed, match="Input/output error"):
        world.commit.wait(seq)
    wait_until(lambda: outcomes)  # after whoever waits, in another thread
    attempts = disk.calls.count(call)
    disk.failing.clear()
    assert [type(outcome) for outcome in outcomes] == [JournalFailed]
    assert len(world.failures) == 1
    with world.store.lock, pytest.raises(JournalFailed):
        world.commit.kick()
    with pytest.raises(JournalFailed):
        world.commit.flush()
    world.commit.notify(seq, outcomes.append)
    assert outcomes[-1] is world.failures[0]
    world.close()
    assert disk.calls.count(call) == attempts
    world = World(tmp_path)
    assert b"safe" in world.bodies()[1].values()
    world.close()


def test_a_failure_ends_the_process_unless_somebody_else_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr("leveret.storage.journal.commit.os._exit", codes.append)
    stop_process(JournalFailed("the disk is gone"))
    assert codes == [70]
    assert capsys.readouterr().err == "leveret: the disk is gone\n"


def test_short_writes_are_continued(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    disk.write_bytes_max = 7
    world = World(disk)
    world.durably(b"in many pieces")
    facts = world.facts()
    world.kill()
    world = World(tmp_path)
    assert world.facts() == facts
    world.close()


def test_interval_syncs_now_and_then(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, sync="interval", interval_ms=200)
    for _ in range(5):
        world.durably()
    assert disk.calls.count("datasync") == 0
    world.now_ms += 200
    world.durably()
    assert disk.calls.count("datasync") == 1
    world.now_ms -= 5000
    world.durably()
    assert disk.calls.count("datasync") == 2, "a clock that jumps back does not stop syncs"
    world.close()


def test_never_syncs_only_where_the_log_needs_it(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, sync="never", segment_bytes=1024)
    for _ in range(5):
        world.durably(b"x")
        world.now_ms += 1000
    assert disk.calls.count("datasync") == 0
    world.durably(b"x" * 1024)
    world.durably(b"the next segment")
    assert disk.calls.count("datasync") == 1, "a segment is durable before there is a next one"
    world.store.checkpoint()
    assert disk.calls.count("datasync") == 2, "a checkpoint needs what lies before it"
    world.close()


def test_an_idle_writer_syncs_what_an_interval_owes(tmp_path: Path) -> None:
    synced = threading.Event()

    class Watched(FaultyDisk):
        def datasync(self, fd: int) -> None:
            super().datasync(fd)
            synced.set()

    world = World(Watched(tmp_path), threaded=True, sync="interval", interval_ms=3_600_000)
    world.durably()
    assert synced.wait(PATIENCE_S)
    world.close()


def test_lost_unsynced_frames_are_a_torn_tail_though_later_ones_survived(tmp_path: Path) -> None:
    world = World(tmp_path, sync="never")
    world.durably(b"kept")
    start = world.journal.offset
    world.durably(b"lost by the power cut")
    world.durably(b"written out of order")
    world.kill()
    segment = tmp_path / "seg-00000000000000000001.log"
    data = bytearray(segment.read_bytes())
    data[start : start + 60] = bytes(60)
    segment.write_bytes(data)
    world = World(tmp_path)
    assert list(world.bodies()[1].values()) == [b"kept"]
    assert world.recovered.torn_bytes == len(data) - start
    world.close()


def test_publishers_are_held_when_the_disk_is_behind(tmp_path: Path) -> None:
    world = World(tmp_path, unwritten_bytes_max=1000)
    world.publish(b"x" * 500)
    assert not world.journal.behind
    world.publish(b"x" * 500)
    assert world.journal.behind
    world.commit.flush()
    assert not world.journal.behind
    assert world.journal.unwritten_bytes == 0
    world.close()


def test_a_frame_has_a_limit(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.journal.frame_bytes_max = 1000
    world.publish(b"x" * 500)
    with pytest.raises(JournalFailed, match="commit before appending more"):
        world.publish(b"x" * 500)
    world.kill()


EVENTS: dict[str, Any] = {"history_events": "all", "history_age_ms": 1 << 40, "history_bytes": 1 << 30}


class StreamsOnly:
    """What becomes durable beside the journal, without a place to write it to."""

    def __init__(self) -> None:
        self.dirty = False

    def take(self) -> None:
        self.dirty = False

    def commit(self, now_ms: int) -> int:
        return 0

    def committed(self) -> None:
        """Nothing waits for it here."""


def test_who_appends_to_a_stream_behind_a_batch_of_events_does_not_wait_for_ever(tmp_path: Path) -> None:
    world = World(tmp_path, threaded=True, **EVENTS)
    world.commit.companion = streams = StreamsOnly()
    written = threading.Event()
    with world.store.lock:
        world.journal.named(1, b"an event")
        assert world.journal.seal_events()
        world.commit.kick()
        streams.dirty = True
        seq = world.commit.pending
        world.commit.notify(seq, lambda error: written.set())
        world.commit.kick()
    assert written.wait(PATIENCE_S)
    assert world.journal.durable == seq
    world.close()


def test_a_caller_does_not_wait_for_what_only_history_needs(tmp_path: Path) -> None:
    disk = GatedDisk(tmp_path)
    world = World(disk, threaded=True, **EVENTS)
    published = world.durably()
    with world.store.lock:
        durable = world.journal.durable
        world.journal.named(1, b"an event")
        assert world.journal.seal_events()
        assert world.commit.pending == durable, "nothing else was appended"
    assert published
    world.close()
