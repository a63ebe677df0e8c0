"""Repairing a log: what is damaged is left out, and everything else keeps its offset.

A segment that is not whole is written anew, with its good blocks and, for the records between them, blocks that say how
many there were (see blocks.pyx). It takes the place of the old one when it is durable, so a repair that is interrupted
is simply made again. Without --salvage nothing of this happens: damage is refused.
"""

import secrets
from collections.abc import Iterator

from leveret.core.errors import DamagedJournal
from leveret.storage.disk import Bytes, Disk, discard, reading, take_place, write_beside
from leveret.storage.encryption import MasterKeys
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.blocks import HEAD_BYTES, BlockHead, block_bytes, lost_block, read_head
from leveret.storage.stream.files.segments import (
    Blocks,
    PartitionShare,
    bases,
    beginnings,
    pack_header,
    read_header,
    segment_name,
)
from leveret.storage.stream.index import Index, index_name, read_index

SALT_AT = 48
"""In the header of a block: it is in all of them, so that a segment can lose its own header."""

COUNT_MAX = 0xFFFFFFFF  # of the records of a block


def salvage(disk: Disk, share: PartitionShare, keys: MasterKeys) -> int:
    """Make a log of a directory that can be opened; give the number of records that were lost."""
    found = bases(disk)
    endings: list[int | None] = [*found[1:], None]
    return sum(
        Repair(disk, base, following, _index(disk, base, keys)).run(share)
        for base, following in zip(found, endings, strict=False)
    )


def _index(disk: Disk, base: int, keys: MasterKeys) -> Index | None:
    """The index of a segment; a damaged one goes, since it can be made anew."""
    try:
        return read_index(disk, base, keys)
    except DamagedJournal:
        disk.unlink(index_name(base))
        return None


class Repair:
    """One segment: what is good in it, up to the record that the next one begins with."""

    def __init__(self, disk: Disk, base: int, following: int | None, index: Index | None) -> None:
        """Look at a segment; nothing follows the last one."""
        self._disk = disk
        self._base = base
        self._name = segment_name(base)
        self._size = disk.size(self._name)
        self._known_end = 0 if index is None else index.segment.end
        self._following = following
        self._salt = None if index is None else index.segment.salt
        self._written_end = base
        self._last_ms = 0
        self.lost = 0

    def run(self, share: PartitionShare) -> int:
        """Write it anew if it is damaged; give the number of records that were lost."""
        header = read_header(self._disk, self._base)
        with reading(self._disk, self._name) as fd:
            if header is not None:
                self._salt = header[0]
                if header[1] != share or self._is_whole(Blocks(self._disk, fd, self._size, header[0])):
                    return 0  # another number of partitions is no damage: it is refused later on
            write_beside(self._disk, self._name, self._repaired(fd, self._found_salt(fd), share))
        discard(self._disk, index_name(self._base))
        take_place(self._disk, self._name)
        return self.lost

    def _is_whole(self, blocks: Blocks) -> bool:
        """Whether block follows upon block, up to where the segment ends."""
        reached, end = HEADER_BYTES, self._base
        for position, data, head in blocks.following(HEADER_BYTES, self._base):
            reached, end = position + len(data), head.first + head.count
            if end == self._following:
                return True
        return self._following is None and reached == self._size and end >= self._known_end

    def _found_salt(self, fd: int) -> int:
        """The salt of the segment: by its header, its index or its first good block; any other when there is none."""
        if self._salt is not None:
            return self._salt
        for position in beginnings(self._disk, fd, 0, self._size):
            claimed = block_bytes(self._disk.pread(fd, HEAD_BYTES, position), 0)
            data = self._disk.pread(fd, claimed, position)
            salt = int.from_bytes(data[SALT_AT : SALT_AT + 4], "little")
            if read_head(data, 0, salt) is not None:
                return salt
        return secrets.randbits(32)

    def _repaired(self, fd: int, salt: int, share: PartitionShare) -> Iterator[Bytes]:
        """A segment with all of the good blocks of this one."""
        yield pack_header(self._base, salt, share)
        for _, data, head in Blocks(self._disk, fd, self._size, salt).after(0):
            if self._goes_on(head):
                yield from self._lost_until(head.first, salt)
                yield data
                self._written_end, self._last_ms = head.first + head.count, head.last_ms
        yield from self._lost_until(self._known_end if self._following is None else self._following, salt)

    def _goes_on(self, head: BlockHead) -> bool:
        """Whether a block comes after those that were written, and before the next segment."""
        end = head.first + head.count
        return head.first >= self._written_end and (self._following is None or end <= self._following)

    def _lost_until(self, end: int, salt: int) -> Iterator[Bytes]:
        """Blocks in the place of the records up to an offset, which are lost."""
        while self._written_end < end:
            count = min(end - self._written_end, COUNT_MAX)
            yield lost_block(self._written_end, count, self._last_ms, salt)
            self.lost += count
            self._written_end += count
