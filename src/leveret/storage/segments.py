"""What segments of the journal and of streams have in common, whatever lies in them.

    header 64 | magic 4 | version 2 | ... | crc32c 4 |      the checksum is of all that is before it

A segment is named after a number of 20 digits, and what lies in it begins with a magic number of its own.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from leveret.storage.disk import Bytes, Disk
from leveret.storage.journal.records import crc32c

HEADER_BYTES = 64
DIGITS = 20
_CRC_BYTES = 4


class Damage(NamedTuple):
    """Something that is not as it was written."""

    name: str
    offset: int
    why: str


def numbers(disk: Disk, prefix: str, suffix: str) -> list[int]:
    """The numbers of the files that have such names, in their order."""
    names = [name for name in disk.names() if name.startswith(prefix) and name.endswith(suffix)]
    found = [name[len(prefix) : len(name) - len(suffix)] for name in names]
    return sorted(int(number) for number in found if len(number) == DIGITS and number.isdigit())


def pack_header(form: struct.Struct, *facts: object) -> bytes:
    """A header of 64 bytes; the last of its fields is the checksum."""
    start = form.pack(*facts, 0)[:-_CRC_BYTES]
    return start + crc32c(start).to_bytes(_CRC_BYTES, "little")


def parse_header(form: struct.Struct, magic: bytes, data: Bytes) -> tuple[Any, ...] | None:
    """What a header says between its magic number and its checksum; None when it is not whole."""
    if len(data) < form.size:
        return None
    found, *facts, crc = form.unpack_from(data)
    return tuple(facts) if found == magic and crc == crc32c(data[: form.size - _CRC_BYTES]) else None


def occurrences(data: bytes, magic: bytes, start: int = 0) -> Iterator[int]:
    """Every position from one on where something with this magic number may begin."""
    at = data.find(magic, start)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)
