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

`verify_partition` reads every byte of streams that no process has open, and changes none.
"""

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
from leveret.storage.stream.blocks import BlockHead, records_in
from leveret.storage.stream.files.segments import (
    PIECE_BYTES,
    REMEDY,
    Blocks,
    PartitionShare,
    Segment,
    bases,
    damage,
    pack_header,
    read_header,
    segment_name,
)
from leveret.storage.stream.index import SUFFIX, Index, IndexRows, index_name, read_index, write_index
from leveret.storage.stream.producers import Producers
from leveret.storage.stream.sealing import opened


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
        """Take a block into the index."""
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
