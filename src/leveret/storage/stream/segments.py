"""Segments: the files of a stream, each with an index beside it.

    header 64  | magic 4 | version 2 | - 2 | base offset 8 | salt 4 | partition 4 | partitions 4 | - 32 | crc32c 4 |

The salt is random and repeated in each block, so that bytes of another file never pass for blocks of this one. Which
partition of how many it is says whether keys are still looked for where they were put.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from leveret.core.errors import DamagedJournal, UnknownFormat
from leveret.storage import segments
from leveret.storage.disk import Disk, read_start
from leveret.storage.segments import HEADER_BYTES, occurrences
from leveret.storage.stream.blocks import HEAD_BYTES, MAGIC, BlockHead, block_bytes, read_head

REMEDY = "restore the stream from a backup, or start once with salvage to skip what is damaged"

_HEADER = struct.Struct("<4sH2xQIII32xI")
_MAGIC = b"LSTR"
_VERSION = 1
_PREFIX, _SUFFIX = "stream-", ".log"
PIECE_BYTES = 1 << 20


class PartitionShare(NamedTuple):
    """Which partition of how many a log is."""

    partition: int = 0
    partitions: int = 1


def segment_name(base: int) -> str:
    """The file name of the segment whose first record has this offset."""
    return f"{_PREFIX}{base:020d}{_SUFFIX}"


def base_of(name: str) -> int:
    """The offset that the name of a segment, or of what belongs to it, says."""
    return int(name.removeprefix(_PREFIX).partition(".")[0])


def bases(disk: Disk, suffix: str = _SUFFIX) -> list[int]:
    """The segments (or their indexes) that exist, oldest first."""
    return segments.numbers(disk, _PREFIX, suffix)


def pack_header(base: int, salt: int, share: PartitionShare) -> bytes:
    """The bytes of the header."""
    return segments.pack_header(_HEADER, _MAGIC, _VERSION, base, salt, *share)


def parse_header(data: bytes, base: int) -> tuple[int, PartitionShare] | None:
    """The salt and share of a segment; None when its header is not whole."""
    facts = segments.parse_header(_HEADER, _MAGIC, data)
    if facts is None or facts[1] != base:
        return None
    version, _, salt, *share = facts
    if version != _VERSION:
        name = segment_name(base)
        raise UnknownFormat(f"{name} has version {version}, this one reads {_VERSION}: use the version that wrote it")
    return salt, PartitionShare(*share)


def read_header(disk: Disk, base: int) -> tuple[int, PartitionShare] | None:
    """The salt and share of a segment on a disk; None when its header is not whole."""
    return parse_header(read_start(disk, segment_name(base), HEADER_BYTES), base)


def damage(name: str, position: int) -> DamagedJournal:
    """What to say about bytes of a segment that are not as they were written."""
    return DamagedJournal(f"{name} is damaged at offset {position}: {REMEDY}")


@dataclass(slots=True)
class Segment:
    """What memory knows about a segment, however large it is."""

    base: int
    salt: int
    end: int
    """The offset after its last record."""
    size: int = HEADER_BYTES
    first_ms: int = 0
    last_ms: int = 0
    last_block: int = 0
    """The offset of the first record of its last block."""

    @property
    def name(self) -> str:
        return segment_name(self.base)


def holding(found: list[Segment], offset: int) -> Segment | None:
    """The segment that has a record of this offset, or will have it; the oldest one when it is gone."""
    found = found[:]  # retention may remove some of them meanwhile, in its own thread
    at = bisect_right(found, offset, key=lambda segment: segment.base) - 1
    return found[max(at, 0)] if found else None


class Blocks:
    """The good blocks of a file that is open for reading, wherever they lie: also behind a bad one."""

    def __init__(self, disk: Disk, fd: int, size: int, salt: int) -> None:
        """Read so much of a file; blocks with another salt are of another segment."""
        self._disk = disk
        self._fd = fd
        self._size = size
        self._salt = salt

    def at(self, position: int) -> tuple[bytes, BlockHead] | None:
        """A good block and its header; None when there is none at a position."""
        claimed = block_bytes(self._disk.pread(self._fd, HEAD_BYTES, position), 0)
        if not 0 < claimed <= self._size - position:
            return None
        data = self._disk.pread(self._fd, claimed, position)
        head = read_head(data, 0, self._salt)
        return None if head is None else (data, head)

    def following(self, position: int, first: int) -> Iterator[tuple[int, bytes, BlockHead]]:
        """The good blocks from a position on that go on where the one before ended, beginning with this offset."""
        while position < self._size and (found := self.at(position)) is not None and found[1].first == first:
            yield position, *found
            position, first = position + len(found[0]), first + found[1].count

    def after(self, position: int) -> Iterator[tuple[int, bytes, BlockHead]]:
        """Every good block at or after a position, with its own, found by how blocks begin."""
        for at in beginnings(self._disk, self._fd, position, self._size):
            found = self.at(at)
            if found is not None:
                yield at, *found


def beginnings(disk: Disk, fd: int, position: int, size: int) -> Iterator[int]:
    """Every position at or after this one where a block may begin."""
    while position < size:
        piece = disk.pread(fd, PIECE_BYTES, position)
        for at in occurrences(piece, MAGIC):
            yield position + at
        # The magic may lie across the ends of two pieces.
        position += max(1, len(piece) - len(MAGIC) + 1)
