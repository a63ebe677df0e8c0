"""Opening a stream: from its files to what was durable, and a last segment that can be appended to.

Segments before the last one were durable as a whole before there was a next: their index must speak of all of them,
or is made anew from every byte. In the last one, everything after its index is read again. A bad block is one that is
not whole, has another salt than its segment, or does not go on where the one before ended:

    in the last segment, nothing after it proves that it was durable     a torn write: cut
    in the last segment, and a later block says that it was durable      damage: refuse
    anywhere else; a segment is missing; offsets have a gap              damage: refuse

What was written after the last index may be in the page cache only: after a failed sync its pages count as clean, so
syncing them again does nothing. It is therefore written anew, into a segment of its own that begins where the index
ends (and takes the place of a segment that the index says nothing about); then the old segment is cut there. What a
database has stored is durable and whole, so there nothing is cut or written anew.

`salvage` repairs a log before it is opened: what is damaged is left out, and everything else keeps its offset. A
segment that is not whole is written anew, with its good blocks and, for the records between them, blocks that say how
many there were (see blocks.pyx). It takes the place of the old one when it is durable, so a repair that is interrupted
is simply made again.

`verify_partition` reads every byte of streams that no process has open, and changes none.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from leveret.core.errors import DamagedJournal, PreconditionFailed
from leveret.storage.disk import (
    TEMPORARY,
    Bytes,
    Disk,
    NoRoom,
    cut_file,
    discard,
    reading,
    remove_leftovers,
    take_place,
    undone_without_room,
    write_beside,
)
from leveret.storage.encryption import MasterKeys
from leveret.storage.segments import HEADER_BYTES, Damage
from leveret.storage.stream.blocks import HEAD_BYTES, BlockHead, block_bytes, lost_block, read_head, records_in
from leveret.storage.stream.index import SUFFIX, Index, IndexRows, Producers, index_name, read_index, write_index
from leveret.storage.stream.segments import (
    PIECE_BYTES,
    REMEDY,
    Blocks,
    PartitionShare,
    Segment,
    bases,
    beginnings,
    damage,
    opened,
    pack_header,
    read_header,
    segment_name,
)


@dataclass
class RecoveredStream:
    """What a directory holds."""

    segments: list[Segment] = field(default_factory=list)
    last: Index | None = None
    torn_bytes: int = 0
    read_again_bytes: int = 0
    checkpoint_bytes: int = 0
    """How much of the last segment its index speaks of; 0 when it has none."""
    lost_records: int = 0
    """What a repair could not save."""


class SegmentScan:
    """Reads a segment block by block from a position on, and adds to its index what it finds."""

    def __init__(self, disk: Disk, index: Index, keys: MasterKeys) -> None:
        self._disk = disk
        self._index = index
        self._keys = keys
        self._size = disk.size(index.segment.name)

    def run(self, last: bool) -> int:
        """Read up to the end, or up to a torn write; give what is left after it."""
        segment = self._index.segment
        with reading(self._disk, segment.name) as fd:
            blocks = Blocks(self._disk, fd, self._size, segment.salt)
            for _, data, head in blocks.following(segment.size, segment.end):
                self._note(data, head)
            if segment.size < self._size:
                self._refuse_damage(blocks, last)
        return self._size - segment.size

    def _note(self, data: bytes, head: BlockHead) -> None:
        producers = {}
        if head.names_producers:
            records = records_in(*opened(self._keys, data, head)) or ()
            producers = {record.producer: record.sequence for record in records if record.producer}
        self._index.add(head, len(data), producers)

    def _refuse_damage(self, blocks: Blocks, last: bool) -> None:
        """Refuse a bad block if it was durable once: a later one may say so."""
        segment = self._index.segment
        if not last or any(head.synced > segment.end for _, _, head in blocks.after(segment.size)):
            raise damage(segment.name, segment.size)


def recover(disk: Disk, share: PartitionShare, keys: MasterKeys) -> RecoveredStream:
    """Read what a directory holds, and leave a log that can be appended to."""
    _remove_leftovers(disk)
    found = bases(disk)
    result = RecoveredStream()
    producers = Producers()
    for base, following in pairwise(found):
        index = _known(disk, base, producers, share, keys)
        _check_sealed(disk, index, following, keys)
        producers = index.producers
        result.segments.append(index.segment)
    if found:
        _recover_last(disk, _known(disk, found[-1], producers, share, keys), share, keys, result)
    return result


def _remove_leftovers(disk: Disk) -> None:
    """Remove what died in its creation, and indexes of segments that are gone."""
    remove_leftovers(disk)
    found = bases(disk)
    indexed = bases(disk, SUFFIX)
    for base in set(indexed) - set(found):
        disk.unlink(index_name(base))
    if not found or found[-1] in indexed or disk.size(segment_name(found[-1])) > HEADER_BYTES:
        return
    if read_header(disk, found[-1]) is None:
        disk.unlink(segment_name(found[-1]))
        disk.sync_dir()


def _known(disk: Disk, base: int, producers: Producers, share: PartitionShare, keys: MasterKeys) -> Index:
    """The index of a segment as far as it was written; an empty one when it is missing."""
    name = segment_name(base)
    header = read_header(disk, base)
    if header is None:
        raise damage(name, 0)
    salt, written_as = header
    if written_as != share:
        raise PreconditionFailed(
            f"{name} is partition {written_as.partition} of {written_as.partitions}, not {share.partition} of "
            f"{share.partitions}: open the stream with the number of partitions that it was made with"
        )
    index = read_index(disk, base, keys)
    if index is None:
        return Index(Segment(base, salt, base), IndexRows(), producers.copy())
    if index.segment.salt != salt:
        raise DamagedJournal(f"{index_name(base)} is not the index of {name}: remove it, and it is made anew")
    if disk.size(name) < index.segment.size:
        raise DamagedJournal(f"{name} is cut before offset {index.segment.size}: {REMEDY}")
    return index


def _check_sealed(disk: Disk, index: Index, following: int, keys: MasterKeys) -> None:
    """Refuse a segment that does not reach to the next one."""
    segment = index.segment
    if segment.end < following:
        SegmentScan(disk, index, keys).run(last=False)
        write_index(disk, index, keys)
    if segment.end != following:
        raise DamagedJournal(
            f"{segment.name} ends with record {segment.end}, the next segment begins with {following}: {REMEDY}"
        )
    if disk.size(segment.name) > segment.size:
        # The rest was written anew into the next segment, and then there was no time to cut it here.
        cut_file(disk, segment.name, segment.size)


def _recover_last(disk: Disk, index: Index, share: PartitionShare, keys: MasterKeys, result: RecoveredStream) -> None:
    """Read the end of the last segment again, and write it anew."""
    segment = index.segment
    durable = replace(segment)
    if index_name(segment.base) in disk.names():
        result.checkpoint_bytes = segment.size
    result.torn_bytes = SegmentScan(disk, index, keys).run(last=disk.tears)
    result.read_again_bytes = segment.size - durable.size
    result.segments.append(segment)
    result.last = index
    if result.read_again_bytes == 0 or not disk.tears:
        if result.torn_bytes:
            cut_file(disk, segment.name, segment.size)
        return
    name = segment_name(durable.end)
    try:
        with undone_without_room(lambda: discard(disk, name + TEMPORARY)):
            write_beside(disk, name, _copied_end(disk, segment, durable, share))
    except NoRoom:
        cut_file(disk, segment.name, segment.size)  # all that can be done on a full disk
        return
    take_place(disk, name)
    moved = Index(Segment(durable.end, segment.salt, durable.end), IndexRows(), index.producers)
    SegmentScan(disk, moved, keys).run(last=False)
    result.last = moved
    result.segments[-1] = moved.segment
    if durable.end > durable.base:
        cut_file(disk, durable.name, durable.size)
        result.segments.insert(-1, durable)
        result.checkpoint_bytes = 0


def _copied_end(disk: Disk, old: Segment, durable: Segment, share: PartitionShare) -> Iterator[Bytes]:
    """A segment with what the index does not speak of."""
    yield pack_header(durable.end, old.salt, share)
    with reading(disk, old.name) as fd:
        for position in range(durable.size, old.size, PIECE_BYTES):
            yield disk.pread(fd, min(PIECE_BYTES, old.size - position), position)


def verify_partition(disk: Disk) -> list[Damage]:
    """Everything that is damaged in the directory of one partition. Encrypted blocks are checked without their key."""
    return [each for base in bases(disk) for each in _damage_in(disk, base)]


def _damage_in(disk: Disk, base: int) -> Iterator[Damage]:
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
