"""A full check of a data directory that no process has open: META, checkpoints and segments against their checksums.

Opening a directory reads what it needs; damage in a part of the log that a checkpoint stands for shows only when that
part is read. This reads every byte and changes none. Encrypted data is checked without its key.
"""

from collections.abc import Iterator

from leveret.core.errors import JournalError
from leveret.storage.disk import Disk
from leveret.storage.journal.checkpoint import checkpoint_is_whole, checkpoint_names
from leveret.storage.journal.entries import read_head
from leveret.storage.journal.files.meta import META_NAME, meta_is_whole, read_meta
from leveret.storage.journal.files.segments import parse_header, segment_name, segment_numbers
from leveret.storage.segments import HEADER_BYTES, Damage


def verify(disk: Disk) -> list[Damage]:
    """Everything that is damaged in a directory."""
    return [*_meta(disk), *_checkpoints(disk), *_segments(disk)]


def _meta(disk: Disk) -> Iterator[Damage]:
    if META_NAME not in disk.names():
        yield Damage(META_NAME, 0, "it is missing")
    elif not meta_is_whole(disk):
        yield Damage(META_NAME, 0, "its checksum is wrong")


def _checkpoints(disk: Disk) -> Iterator[Damage]:
    for name in checkpoint_names(disk):
        if not checkpoint_is_whole(disk, name):
            yield Damage(name, 0, "its checksum is wrong: it will be ignored, and the log be replayed in full")


def _segments(disk: Disk) -> Iterator[Damage]:
    """Check the segments that count, commit batch by commit batch, and that none is missing."""
    numbers = [number for number in segment_numbers(disk) if number >= _oldest(disk)]
    expected = numbers[0] if numbers else 0
    seq = -1
    for number in numbers:
        if number != expected:
            yield Damage(segment_name(expected), 0, "it is missing")
        expected = number + 1
        seq, found = _batches(disk, number, seq)
        yield from found


def _oldest(disk: Disk) -> int:
    """The first segment that still counts; older ones are leftovers of a crash."""
    try:
        return read_meta(disk).oldest
    except JournalError:
        return 0


def _batches(disk: Disk, segment: int, seq: int) -> tuple[int, list[Damage]]:
    """Check one segment, whose first commit batch follows number `seq`; give the number of its last one."""
    name = segment_name(segment)
    data = disk.read_all(name)
    header = parse_header(data, segment)
    if header is None:
        return -1, [Damage(name, 0, "its header is damaged")]
    if seq not in (-1, header.first_seq - 1):
        return -1, [Damage(name, 0, f"frame {seq + 1} should be its first, not {header.first_seq}")]
    seq, offset = header.first_seq - 1, HEADER_BYTES
    while offset < len(data):
        head = read_head(data, offset, header.salt)
        if head is None or head.seq != seq + 1:
            return -1, [Damage(name, offset, "a frame is damaged, or was torn by a crash")]
        seq, offset = head.seq, head.end
    return seq, []
