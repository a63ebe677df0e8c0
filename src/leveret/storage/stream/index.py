"""The index of a segment: a row for some blocks, to find an offset or a time without reading from the start.

    file     | header 72 | rows, 24 each | producers | crc32c of all 4 |
    or       | magic of an encrypted one 4 | all of that but the crc32c, in a sealed box | crc32c of all 4 |
    header   | magic 4 | version 4 | base offset 8 | end offset 8 | size 8 | first_ms 8 | last_ms 8 | salt 4 |
             | rows 4 | producers 4 | last block 8 | - 4 |
    row      | offset 8 | position 8 | first_ms 8 |        of a block; one about every 256 KiB

It is a checkpoint too: the `size` bytes of the segment that it speaks of were durable when it was written, and the
producers are those of all records before `end`. What comes after is read again when the stream is opened. It is
replaced as a whole, and made anew from the segment when it is missing.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from leveret.core.errors import DamagedJournal, TooMany, UnknownFormat
from leveret.storage.disk import Disk, replace_file
from leveret.storage.encryption import MasterKeys, seal, unseal
from leveret.storage.journal.records import crc32c
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.blocks import Block, BlockHead
from leveret.storage.stream.segments import Segment, segment_name, unsealed

SPACING_BYTES = 256 << 10
SUFFIX = ".index"
_HEADER = struct.Struct("<4sIQQQQQIIIQ4x")
_MAGIC = b"LSIX"
_ENCRYPTED_MAGIC = b"LSIB"
_OLD_ENCRYPTED_MAGIC = b"LSIE"  # sealed as blocks were, by the master key
_INFO = b"leveret stream index "
_VERSION = 1
_ROW_BYTES = 24


PRODUCERS_MAX = 10_000
"""Names that one partition remembers: a client that makes up names must not take all memory."""
PRODUCER_IDLE_MS = 7 * 86_400_000
"""A producer that was silent for so long may be forgotten to make room for another."""
_ROW = struct.Struct("<BQQ")


class Producers:
    """The last sequence number of each producer, for de-duplication; in the order of their last record."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def sequence(self, name: bytes) -> int | None:
        """The last sequence number of a producer; None when it is not known."""
        known = self._last.get(name)
        return None if known is None else known[0]

    def admits(self, name: bytes, sequence: int, now_ms: int) -> bool:
        """Whether a record is new; refuse one more producer when too many were active lately."""
        known = self._last.get(name)
        if known is not None:
            return sequence > known[0]
        if len(self._last) >= PRODUCERS_MAX and next(iter(self._last.values()))[1] > now_ms - PRODUCER_IDLE_MS:
            raise TooMany(
                f"the stream remembers {PRODUCERS_MAX} producers and all were active lately: use fewer producer names"
            )
        return True

    def note(self, name: bytes, sequence: int, now_ms: int) -> None:
        """Remember a record as the last of its producer; the producer that was silent for longest may be forgotten."""
        self._last[name] = (sequence, now_ms)
        self._last.move_to_end(name)
        if len(self._last) > PRODUCERS_MAX:
            self._last.popitem(last=False)

    def forget(self, name: bytes) -> bool:
        """Forget a producer that sends nothing more; False when it was not known."""
        return self._last.pop(name, None) is not None

    def copy(self) -> "Producers":
        twin = Producers()
        twin._last = self._last.copy()
        return twin

    def pack(self) -> bytes:
        """All of them as bytes: | name_len 1 | sequence 8 | last_ms 8 | name |, in their order."""
        return b"".join(_ROW.pack(len(name), *last) + name for name, last in self._last.items())


def unpack(data: bytes, count: int) -> Producers:
    """The reverse of pack."""
    producers = Producers()
    at = 0
    for _ in range(count):
        name_len, sequence, last_ms = _ROW.unpack_from(data, at)
        at += _ROW.size
        producers.note(data[at : at + name_len], sequence, last_ms)
        at += name_len
    return producers


class IndexRows:
    """Offsets, positions and times of some blocks, all of them rising."""

    __slots__ = ("offsets", "positions", "times")

    def __init__(self, offsets: bytes = b"", positions: bytes = b"", times: bytes = b"") -> None:
        self.offsets, self.positions, self.times = array("Q", offsets), array("Q", positions), array("Q", times)

    def __len__(self) -> int:
        return len(self.offsets)

    def note(self, offset: int, position: int, first_ms: int) -> None:
        """Add a row for a block, unless the last one is near."""
        if not self.positions or position - self.positions[-1] >= SPACING_BYTES:
            self.offsets.append(offset)
            self.positions.append(position)
            self.times.append(first_ms)

    def before_offset(self, offset: int) -> int:
        """A position at or before the block that holds an offset."""
        return self._position(bisect_right(self.offsets, offset) - 1)

    def before_time(self, timestamp_ms: int) -> int:
        """A position at or before the first block with a record of this time or later."""
        return self._position(bisect_left(self.times, timestamp_ms) - 1)

    def _position(self, row: int) -> int:
        """The position of a row; the first block when there is none."""
        return self.positions[row] if row >= 0 else HEADER_BYTES


@dataclass
class Index:
    """What is known about the durable part of a segment."""

    segment: Segment
    rows: IndexRows = field(default_factory=IndexRows)
    producers: Producers = field(default_factory=Producers)

    def add(self, block: Block | BlockHead, size: int, producers: Mapping[bytes, int]) -> None:
        """Take in the next block of the segment, and the last sequence number of each producer in it."""
        segment = self.segment
        self.rows.note(block.first, segment.size, block.first_ms)
        if segment.end == segment.base:
            segment.first_ms = block.first_ms
        segment.last_ms = block.last_ms
        segment.last_block = block.first
        segment.end += block.count
        segment.size += size
        for producer, sequence in producers.items():
            self.producers.note(producer, sequence, block.last_ms)


def index_name(base: int) -> str:
    """The file name of the index of a segment."""
    return segment_name(base).removesuffix(".log") + SUFFIX


def write_index(disk: Disk, index: Index, keys: MasterKeys) -> None:
    """Replace the file of an index durably; the segment must be durable already."""
    segment, rows, producers = index.segment, index.rows, index.producers
    counts = (segment.salt, len(rows), len(producers), segment.last_block)
    times = (segment.first_ms, segment.last_ms)
    header = _HEADER.pack(_MAGIC, _VERSION, segment.base, segment.end, segment.size, *times, *counts)
    columns = rows.offsets.tobytes() + rows.positions.tobytes() + rows.times.tobytes()
    data = header + columns + producers.pack()
    if keys:
        data = _ENCRYPTED_MAGIC + seal(keys, _INFO + str(segment.base).encode(), data, _ENCRYPTED_MAGIC)
    replace_file(disk, index_name(segment.base), data, struct.pack("<I", crc32c(data)))


def read_index(disk: Disk, base: int, keys: MasterKeys) -> Index | None:
    """Read the index of a segment; None when it has none."""
    name = index_name(base)
    try:
        data = disk.read_all(name)
    except FileNotFoundError:
        return None
    data, crc = data[:-4], int.from_bytes(data[-4:], "little")
    if len(data) < _HEADER.size or crc32c(data) != crc:
        raise DamagedJournal(f"{name} is damaged: remove it, and it is made anew from its segment")
    if data.startswith(_ENCRYPTED_MAGIC):
        data = unseal(keys, _INFO + str(base).encode(), data[len(_ENCRYPTED_MAGIC) :], _ENCRYPTED_MAGIC)
    elif data.startswith(_OLD_ENCRYPTED_MAGIC):
        data = unsealed(keys, data[len(_OLD_ENCRYPTED_MAGIC) :], _OLD_ENCRYPTED_MAGIC, derived=False)
    magic, version, number, end, size, first_ms, last_ms, salt, rows, producers, block = _HEADER.unpack_from(data)
    if magic != _MAGIC or number != base:
        raise DamagedJournal(f"{name} is not the index of its segment: remove it, and it is made anew")
    if version != _VERSION:
        raise UnknownFormat(f"{name} has version {version}, this one reads {_VERSION}: use the version that wrote it")
    column = 8 * rows
    columns = [data[at : at + column] for at in range(_HEADER.size, _HEADER.size + _ROW_BYTES * rows, column or 1)]
    known = unpack(data[_HEADER.size + _ROW_BYTES * rows :], producers)
    return Index(Segment(base, salt, end, size, first_ms, last_ms, block), IndexRows(*columns), known)
