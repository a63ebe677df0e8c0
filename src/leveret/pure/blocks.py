"""Reading blocks of streams in Python alone: see leveret/storage/stream/blocks.pyx."""

import struct
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass

MAGIC = b"LBLK"
TEXTS = ("route", "filter_value", "producer", "header", "body")
BLOCK_BYTES_MAX = 64 << 20
_HEAD = struct.Struct("<4sIIIQQQQIIQ")
_RECORD = struct.Struct("<IIQQHBB")
HEAD_BYTES = _HEAD.size
_POLYNOMIAL = 0x82F63B78
_NUMBERS = ("seq", "enqueued_ms", "sequence", "bytes")


@dataclass(frozen=True)
class BlockHead:
    """What the header of a good block says, and where the block is."""

    first: int
    count: int
    start: int
    end: int


def _steps() -> Iterator[int]:
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        yield crc


_STEPS = tuple(_steps())


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """The checksum of some bytes, about 10 MB in a second."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = _STEPS[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def block_at(data: bytes, at: int) -> BlockHead | None:
    """The header of a block; None unless the whole of it is here and undamaged."""
    if at < 0 or len(data) - at < HEAD_BYTES:
        return None
    magic, crc, size, count, first, *_ = _HEAD.unpack_from(data, at)
    end = at + HEAD_BYTES + size
    if magic != MAGIC or end - at > BLOCK_BYTES_MAX or end > len(data) or crc != crc32c(memoryview(data)[at + 8 : end]):
        return None
    return BlockHead(first, count, at, end)


class BlockColumns:
    """Takes blocks one after the other, and gives the columns of what was in them."""

    def __init__(self, first: int, end: int, wanted: Collection[str]) -> None:
        self._first, self._end = first, end
        self._wanted = [(place, name) for place, name in enumerate(TEXTS) if name in wanted]
        self._clear()

    def _clear(self) -> None:
        self.rows = self.size_bytes = 0
        self._numbers = {name: array("q") for name in _NUMBERS}
        self._texts = {name: bytearray() for _, name in self._wanted}
        self._ends = {name: array("i", [0]) for _, name in self._wanted}

    def add(self, data: bytes, start: int, end: int, first: int, count: int) -> bool:
        """Take a good block that lies here; False when its records contradict themselves."""
        at = start + HEAD_BYTES
        for offset in range(first, first + count if at != end else first):  # nothing is left of records that were lost
            if end - at < _RECORD.size:
                return False
            size, header_len, time_ms, sequence, *lengths = _RECORD.unpack_from(data, at)
            body_len = size - _RECORD.size - sum(lengths) - header_len
            if size > end - at or body_len < 0:
                return False
            if self._first <= offset < self._end:
                told = (offset, time_ms, sequence if lengths[2] else -1, body_len)
                self._record(data, at + _RECORD.size, told, (*lengths, header_len, body_len))
            at += size
        return at == end

    def _record(self, data: bytes, at: int, told: tuple[int, ...], lengths: tuple[int, ...]) -> None:
        for column, number in zip(self._numbers.values(), told, strict=True):
            column.append(number)
        for place, name in self._wanted:
            begin = at + sum(lengths[:place])
            self._texts[name] += data[begin : begin + lengths[place]]
            self._ends[name].append(len(self._texts[name]))
            self.size_bytes += lengths[place]
        self.rows += 1

    def take(self) -> dict[str, bytes]:
        """The columns, and begin anew."""
        taken = {name: column.tobytes() for name, column in self._numbers.items()}
        for name, text in self._texts.items():
            taken |= {name: bytes(text), f"{name}_ends": self._ends[name].tobytes()}
        self._clear()
        return taken
