"""Repairing a log: what is damaged is left out, and everything else keeps its offset.

A segment that is not whole is written anew, with its good blocks and, for the records between them, blocks that say how
many there were (see blocks.pyx). It takes the place of the old one when it is durable, so a repair that is interrupted
is simply made again. Without --salvage nothing of this happens: damage is refused.
"""

import secrets

from leveret.core.errors import DamagedJournal
from leveret.storage.disk import TEMPORARY, Disk, write_all
from leveret.storage.encryption import MasterKeys
from leveret.storage.stream.blocks import HEAD_BYTES, BlockHead, block_bytes, lost_block, read_head
from leveret.storage.stream.files.search import Blocks, beginnings
from leveret.storage.stream.files.segments import (
    HEADER_BYTES,
    PartitionShare,
    bases,
    pack_header,
    parse_header,
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
        fd = self._disk.open_read(self._name)
        try:
            header = parse_header(self._disk.pread(fd, HEADER_BYTES, 0), self._base)
            if header is not None:
                self._salt = header[0]
                if header[1] != share or self._is_whole(Blocks(self._disk, fd, self._size, header[0])):
                    return 0  # another number of partitions is no damage: it is refused later on
            self._rewrite(fd, self._found_salt(fd), share)
        finally:
            self._disk.close(fd)
        return self.lost

    def _is_whole(self, blocks: Blocks) -> bool:
        """Whether block follows upon block, up to where the segment ends."""
        position, end = HEADER_BYTES, self._base
        while position < self._size and end != self._following:
            found = blocks.at(position)
            if found is None or found[1].first != end:
                return False
            position, end = position + len(found[0]), end + found[1].count
        return end >= self._known_end if self._following is None else end == self._following

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

    def _rewrite(self, fd: int, salt: int, share: PartitionShare) -> None:
        """Put a segment in the place of this one that has all of its good blocks."""
        temporary = self._name + TEMPORARY
        if temporary in self._disk.names():
            self._disk.unlink(temporary)
        target = self._disk.open_append(temporary)
        try:
            write_all(self._disk, target, pack_header(self._base, salt, share))
            for _, data, head in Blocks(self._disk, fd, self._size, salt).after(0):
                if self._goes_on(head):
                    self._fill(target, head.first, salt)
                    write_all(self._disk, target, data)
                    self._written_end, self._last_ms = head.first + head.count, head.last_ms
            self._fill(target, self._known_end if self._following is None else self._following, salt)
            self._disk.sync(target)
        finally:
            self._disk.close(target)
        if index_name(self._base) in self._disk.names():
            self._disk.unlink(index_name(self._base))
        self._disk.rename(temporary, self._name)
        self._disk.sync_dir()

    def _goes_on(self, head: BlockHead) -> bool:
        """Whether a block comes after those that were written, and before the next segment."""
        end = head.first + head.count
        return head.first >= self._written_end and (self._following is None or end <= self._following)

    def _fill(self, target: int, end: int, salt: int) -> None:
        """Let the records up to an offset be lost ones."""
        while self._written_end < end:
            count = min(end - self._written_end, COUNT_MAX)
            write_all(self._disk, target, lost_block(self._written_end, count, self._last_ms, salt))
            self.lost += count
            self._written_end += count
