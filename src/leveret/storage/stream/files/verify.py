"""A full check of streams that no process has open: every block of every segment against its checksum."""

from collections.abc import Iterator
from typing import NamedTuple

from leveret.storage.disk import Disk
from leveret.storage.stream.blocks import BLOCK_BYTES_MAX, block_bytes, read_head
from leveret.storage.stream.files.segments import HEADER_BYTES, bases, parse_header, segment_name


class Flaw(NamedTuple):
    """A place in a segment that is not as it was written."""

    name: str
    offset: int
    why: str


def verify_partition(disk: Disk) -> list[Flaw]:
    """Everything that is damaged in the directory of one partition. Encrypted blocks are checked without their key."""
    return [flaw for base in bases(disk) for flaw in _segment(disk, base)]


def _segment(disk: Disk, base: int) -> Iterator[Flaw]:
    """Check one segment, block by block; whatever follows a bad one cannot be read."""
    name = segment_name(base)
    fd = disk.open_read(name)
    try:
        found = parse_header(disk.pread(fd, HEADER_BYTES, 0), base)
        if found is None:
            yield Flaw(name, 0, "its header is damaged")
            return
        offset, expected, size = HEADER_BYTES, base, disk.size(name)
        while offset < size:
            claimed = block_bytes(disk.pread(fd, HEADER_BYTES, offset), 0)
            head = read_head(disk.pread(fd, min(claimed, BLOCK_BYTES_MAX), offset), 0, found[0])
            if head is None or head.first != expected:
                yield Flaw(name, offset, "a block is damaged, or was torn by a crash")
                return
            offset, expected = offset + head.end, head.first + head.count
    finally:
        disk.close(fd)
