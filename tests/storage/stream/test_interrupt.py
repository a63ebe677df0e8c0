"""A signal handler that raises in the middle of a commit: the block comes again, once."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from leveret.storage.disk import Bytes, Disk
from tests.storage.stream.world import World, numbered


class InterruptedDisk(Disk):
    """Raises KeyboardInterrupt before or after the call of a name, the next time that it comes."""

    armed = ("", "")

    def _raise_if(self, name: str, when: str) -> None:
        if self.armed == (name, when):
            self.armed = ("", "")
            raise KeyboardInterrupt

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        self._raise_if("write", "before")
        written = super().write(fd, [bytes(buffers[0])[:100]] if self.armed == ("write", "amid") else buffers)
        self._raise_if("write", "amid")
        self._raise_if("write", "after")
        return written

    def datasync(self, fd: int) -> None:
        self._raise_if("datasync", "before")
        super().datasync(fd)
        self._raise_if("datasync", "after")

    def sync_dir(self) -> None:
        self._raise_if("sync_dir", "before")
        super().sync_dir()


@pytest.mark.parametrize(
    "moment",
    [
        ("write", "before"),
        ("write", "amid"),
        ("write", "after"),
        ("datasync", "before"),
        ("datasync", "after"),
        ("sync_dir", "before"),
    ],
)
@pytest.mark.parametrize("block", range(0, 24, 5))
def test_an_interrupted_commit_is_finished_by_the_next_one(tmp_path: Path, moment: tuple[str, str], block: int) -> None:
    disk = InterruptedDisk(tmp_path)
    world = World(disk, segment_bytes=1 << 10)
    for number in range(24):
        world.append(b"body %d" % number)
        if number == block:
            disk.armed = moment
        try:
            world.commit()
        except KeyboardInterrupt:
            world.commit()
    disk.armed = ("", "")
    assert world.bodies() == numbered(range(24))
    world.kill()
    assert world.bodies() == numbered(range(24))
    world.log.close(0)
