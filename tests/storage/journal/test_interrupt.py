"""A signal handler that raises while the main thread writes its frame: the frame is written again, whole."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from leveret.storage.disk import Bytes
from leveret.storage.journal.commit import ThreadedCommit
from tests.storage.journal.world import FaultyDisk, World
from tests.waiting import wait_until


class InterruptedDisk(FaultyDisk):
    """A disk on which one call is interrupted, before or after it did its work; a write in the middle of it.

    Signals are for the thread that made it: whatever the writer thread does is not interrupted.
    """

    armed = ""
    after = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._thread = threading.current_thread()

    def interrupted(self, name: str) -> bool:
        if name != self.armed or threading.current_thread() is not self._thread:
            return False
        self.armed = ""
        return True

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        if self.interrupted("write"):
            data = memoryview(buffers[0])
            super().write(fd, [data if self.after else data[: len(data) // 2]])
            raise KeyboardInterrupt
        return super().write(fd, buffers)

    def datasync(self, fd: int) -> None:
        if not self.interrupted("datasync"):
            return super().datasync(fd)
        if self.after:
            super().datasync(fd)
        raise KeyboardInterrupt

    def sync_dir(self) -> None:
        if not self.interrupted("sync_dir"):
            return super().sync_dir()
        if self.after:
            super().sync_dir()
        raise KeyboardInterrupt


def keep_publishing(world: World, seq: int) -> None:
    commit = world.commit
    assert isinstance(commit, ThreadedCommit)
    for number in range(100):
        wait_until(lambda: not commit._busy)  # whoever waits writes in his own thread then
        commit.wait(seq)
        with world.store.lock:
            world.publish(b"more %d" % number * 100)
            seq = world.journal.pending


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", ["write", "datasync", "sync_dir"])
def test_an_interrupted_commit_is_made_good(tmp_path: Path, call: str, after: bool) -> None:
    disk = InterruptedDisk(tmp_path)
    disk.after = after
    world = World(disk, threaded=True, segment_bytes=2048)
    for number in range(20):
        world.durably(b"before %d" % number * 10)
    with world.store.lock:
        lost = world.publish(b"interrupted" * 200)
        seq = world.journal.pending
    disk.armed = call
    with pytest.raises(KeyboardInterrupt):
        keep_publishing(world, seq)
    world.commit.flush()
    expected = world.bodies()
    assert expected[1][lost] == b"interrupted" * 200
    world.kill()
    again = World(tmp_path)
    assert again.bodies() == expected
    again.close()
