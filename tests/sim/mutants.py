"""Seven journals with a classic mistake each. A harness that lets one of them pass proves nothing.

nosync           writes are not synced
nodirsync        new names are not synced
retry-fsync      a failed sync is tried again, and believed
nocrc            frames are not checked against their checksum
silent-cut       a damaged frame ends the log, whatever comes after it
unlink-first     a segment is removed before its live records are durable elsewhere
any-segment      a segment is removed though an older one remains
"""

import functools
import itertools
import operator
import struct
from collections.abc import Iterator
from typing import NamedTuple

from leveret.storage.journal.files.segments import FRAME_HEADER_BYTES, FRAME_MAGIC, segment_name, segment_numbers
from leveret.storage.journal.records import crc32c
from leveret.storage.segments import HEADER_BYTES
from tests.sim.explorer import Explorer
from tests.sim.flips import Flips
from tests.sim.kinds import JOURNAL
from tests.sim.node import EagerStore, Node
from tests.sim.simdisk import SimDisk

POINTS_MAX = 20_000


class NoSync(SimDisk):
    """Believes that a commit is durable when it is written."""

    def datasync(self, fd: int) -> None:
        """Do nothing."""


class NoDirSync(SimDisk):
    """Believes that a new name is durable."""

    def sync_dir(self) -> None:
        """Do nothing."""


class RetrySync(SimDisk):
    """Believes the second sync after a failed one."""

    def datasync(self, fd: int) -> None:
        """Try twice."""
        try:
            super().datasync(fd)
        except OSError:
            super().datasync(fd)

    sync = datasync


class NoChecksum(SimDisk):
    """Reads every frame as if its checksum were right."""

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read a part of a repaired file."""
        return repaired(self.open_files[fd].cached)[offset : offset + size]

    def read_all(self, name: str) -> bytes:
        """Read a repaired file."""
        return repaired(super().read_all(name))


class SilentCut(SimDisk):
    """Throws away what follows the first damaged frame, later segments included, before anybody sees it."""

    def lock(self) -> None:
        """Cut the log when it is opened."""
        super().lock()
        damaged = False
        for segment in segment_numbers(self):
            name = segment_name(segment)
            content = self.read_all(name)
            whole = list(itertools.takewhile(operator.itemgetter(2), frames(content)))
            end = whole[-1][1] if whole else HEADER_BYTES
            if damaged:
                self.unlink(name)
            elif end < len(content):
                damaged = True
                fd = self.open_append(name)
                self.truncate(fd, end)
                self.sync(fd)
                self.close(fd)
        self.sync_dir()


class UnlinkFirst(EagerStore):
    """Removes a segment while the copies of its live records are still in memory."""

    def compact(self, budget_bytes: int = 0, forced: bool = False) -> bool:
        """Remove first, commit then."""
        segment = self.meta.oldest
        if segment >= self.journal.segment:
            return False
        while not self.state.relocate(segment, budget_bytes):
            pass
        self._remove(segment)
        self.commit.flush()
        return True


class AnySegment(EagerStore):
    """Removes the newest segment that is not written any more, though older ones remain."""

    def compact(self, budget_bytes: int = 0, forced: bool = False) -> bool:
        """Copy what lives in it, then remove it."""
        *older, newest = [number for number in segment_numbers(self.disk) if number < self.journal.segment] or [0]
        if not older:
            return False
        while not self.state.relocate(newest, budget_bytes):
            pass
        self.commit.flush()
        self.disk.unlink(segment_name(newest))
        self.disk.sync_dir()
        return True


class UnlinkFirstNode(Node):
    """A broker with that store."""

    store_class = UnlinkFirst


class AnySegmentNode(Node):
    """A broker with that store; its log has gaps, so its recovery must accept them."""

    store_class = AnySegment
    salvage = True


class Mutant(NamedTuple):
    """The parts of a journal of which one is wrong."""

    disk_class: type[SimDisk] = SimDisk
    node_class: type[Node] = Node
    rots: bool = False
    """Whether the mistake shows only when bits rot."""


MUTANTS = {
    "nosync": Mutant(NoSync),
    "nodirsync": Mutant(NoDirSync),
    "retry-fsync": Mutant(RetrySync),
    "nocrc": Mutant(NoChecksum),
    "silent-cut": Mutant(SilentCut, rots=True),
    "unlink-first": Mutant(node_class=UnlinkFirstNode),
    "any-segment": Mutant(node_class=AnySegmentNode),
}


def points_until_caught(name: str, seed: int = 1, points_max: int = POINTS_MAX) -> int | None:
    """How many crashes or flipped bits it took to see that something is wrong; None when that was not seen."""
    disk_class, node_class, rots = MUTANTS[name]
    kind = JOURNAL._replace(node_class=node_class)
    explorer, flips = Explorer(points_max, kind, disk_class), Flips(disk_class, node_class)
    while explorer.points + flips.injected < points_max:
        if rots:
            flips.inject(seed)
        else:
            explorer.explore(seed)
        if explorer.findings or flips.findings:
            return explorer.points + flips.injected
        seed += 1
    return None


def frames(content: bytes) -> Iterator[tuple[int, int, bool]]:
    """Start and end of each frame of a segment up to the first one that is not whole, and whether it is."""
    start = HEADER_BYTES
    while content[start : start + 4] == FRAME_MAGIC and len(content) >= start + FRAME_HEADER_BYTES:
        crc, body_len, index_len = struct.unpack_from("<III", content, start + 4)
        end = start + FRAME_HEADER_BYTES + body_len + index_len
        whole = end <= len(content) and crc32c(content[start + 8 : end]) == crc
        yield start, end, whole
        if end > len(content):
            break
        start = end


@functools.lru_cache(maxsize=64)
def repaired(content: bytes) -> bytes:
    """A segment with the checksum that each of its frames should have."""
    fixed = bytearray(content)
    for start, end, whole in frames(content):
        if not whole and end <= len(content):
            struct.pack_into("<I", fixed, start + 4, crc32c(content[start + 8 : end]))
    return bytes(fixed)
