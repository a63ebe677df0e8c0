"""Segments: the files of a stream, each with an index beside it.

    header 64  | magic 4 | version 2 | - 2 | base offset 8 | salt 4 | partition 4 | partitions 4 | - 32 | crc32c 4 |

The salt is random and repeated in each block, so that bytes of another file never pass for blocks of this one. Which
partition of how many it is says whether keys are still looked for where they were put.
"""

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from leveret.core.errors import UnknownFormat
from leveret.storage.disk import Disk
from leveret.storage.journal.records import crc32c

HEADER_BYTES = 64
REMEDY = "restore the stream from a backup, or start once with salvage to skip what is damaged"

_HEADER = struct.Struct("<4sH2xQIII32xI")
_MAGIC = b"LSTR"
_VERSION = 1
_PREFIX, _SUFFIX = "stream-", ".log"


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
    names = [name.removeprefix(_PREFIX).removesuffix(suffix) for name in disk.names() if name.endswith(suffix)]
    return sorted(int(name) for name in names if len(name) == 20 and name.isdigit())


def pack_header(base: int, salt: int, share: PartitionShare) -> bytes:
    """The bytes of the header."""
    start = _HEADER.pack(_MAGIC, _VERSION, base, salt, *share, 0)[:-4]
    return start + struct.pack("<I", crc32c(start))


def parse_header(data: bytes, base: int) -> tuple[int, PartitionShare] | None:
    """The salt and share of a segment; None when its header is not whole."""
    if len(data) < HEADER_BYTES:
        return None
    magic, version, number, salt, partition, partitions, crc = _HEADER.unpack_from(data)
    if magic != _MAGIC or crc != crc32c(data[: HEADER_BYTES - 4]) or number != base:
        return None
    if version != _VERSION:
        name = segment_name(base)
        raise UnknownFormat(f"{name} has version {version}, this one reads {_VERSION}: use the version that wrote it")
    return salt, PartitionShare(partition, partitions)


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
        """Its file name."""
        return segment_name(self.base)


def holding(segments: list[Segment], offset: int) -> Segment | None:
    """The segment that has a record of this offset, or will have it; the oldest one when it is gone."""
    segments = segments[:]  # retention may remove some of them meanwhile, in its own thread
    at = bisect_right(segments, offset, key=lambda segment: segment.base) - 1
    return segments[max(at, 0)] if segments else None
