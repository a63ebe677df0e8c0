"""A full check of streams that no process has open: every block of every segment against its checksum."""

from collections.abc import Iterator

from leveret.storage.disk import Disk, reading
from leveret.storage.segments import HEADER_BYTES, Damage
from leveret.storage.stream.files.segments import Blocks, bases, read_header, segment_name


def verify_partition(disk: Disk) -> list[Damage]:
    """Everything that is damaged in the directory of one partition. Encrypted blocks are checked without their key."""
    return [damage for base in bases(disk) for damage in _segment(disk, base)]


def _segment(disk: Disk, base: int) -> Iterator[Damage]:
    """Check one segment, block by block; whatever follows a bad one cannot be read."""
    name = segment_name(base)
    header = read_header(disk, base)
    if header is None:
        yield Damage(name, 0, "its header is damaged")
        return
    end, size = HEADER_BYTES, disk.size(name)
    with reading(disk, name) as fd:
        for position, data, _ in Blocks(disk, fd, size, header[0]).following(HEADER_BYTES, base):
            end = position + len(data)
    if end < size:
        yield Damage(name, end, "a block is damaged, or was torn by a crash")
