"""Encrypting a segment of a stream anew, by the first key that was given, while it may be read.

    1  write      the same blocks, encrypted anew, into a file with a temporary name, with another salt; durable
    2  remove     the index of the old segment, durably: its positions are not those of the new one
    3  rename     the new segment takes the place of the old one, durably
    4  index      that of the new segment

A crash before 3 leaves the old segment, one after it the new one; the index that is missing is made anew from the
segment when the stream is opened. Only segments that nothing is written to any more are encrypted anew. Readers that
have the old file open go on in it; those that open one see by its salt that the segment they know was replaced.
"""

import secrets
from contextlib import suppress

from leveret.core.errors import DamagedJournal
from leveret.storage.disk import NO_ROOM, TEMPORARY, Disk, write_all
from leveret.storage.encryption import MasterKeys
from leveret.storage.stream.files.search import Blocks
from leveret.storage.stream.files.segments import HEADER_BYTES, REMEDY, Segment, pack_header, parse_header
from leveret.storage.stream.index import Index, IndexRows, index_name, read_index, write_index
from leveret.storage.stream.producers import Producers
from leveret.storage.stream.sealing import Sealer


def written_anew(disk: Disk, segment: Segment, keys: MasterKeys) -> Index:
    """Step 1: a copy of a segment that the first key encrypts; nothing of it is left when that fails."""
    known = read_index(disk, segment.base, keys)
    # It speaks of all of the segment, as of every one but the last.
    producers = Producers() if known is None else known.producers
    copy = Index(Segment(segment.base, secrets.randbits(32), segment.base), IndexRows(), producers)
    try:
        _copy(disk, segment, copy, keys)
    except BaseException:
        discard(disk, segment)
        raise
    return copy


def _copy(disk: Disk, segment: Segment, copy: Index, keys: MasterKeys) -> None:
    source, target = disk.open_read(segment.name), disk.open_append(segment.name + TEMPORARY)
    try:
        header = parse_header(disk.pread(source, HEADER_BYTES, 0), segment.base)
        if header is None:
            raise _damage(segment, 0)
        write_all(disk, target, pack_header(segment.base, copy.segment.salt, header[1]))
        blocks, sealer, position = Blocks(disk, source, segment.size, segment.salt), Sealer(keys), HEADER_BYTES
        while position < segment.size:
            found = blocks.at(position)
            if found is None or found[1].first != copy.segment.end:
                raise _damage(segment, position)
            data = sealer.sealed_again(keys, *found, copy.segment.salt)
            write_all(disk, target, data)
            copy.add(found[1], len(data), {})
            position += len(found[0])
        disk.sync(target)
    finally:
        disk.close(source)
        disk.close(target)


def make_way(disk: Disk, segment: Segment) -> None:
    """Step 2."""
    with suppress(FileNotFoundError):
        disk.unlink(index_name(segment.base))
    disk.sync_dir()


def take_place(disk: Disk, segment: Segment) -> None:
    """Step 3, but for its durability."""
    disk.rename(segment.name + TEMPORARY, segment.name)


def settle(disk: Disk, copy: Index, keys: MasterKeys) -> None:
    """The rest; without room for an index it is made when the stream is opened."""
    disk.sync_dir()
    try:
        write_index(disk, copy, keys)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        disk.unlink(index_name(copy.segment.base) + TEMPORARY)


def discard(disk: Disk, segment: Segment) -> None:
    """Remove a copy that is not needed."""
    with suppress(FileNotFoundError):
        disk.unlink(segment.name + TEMPORARY)


def _damage(segment: Segment, position: int) -> DamagedJournal:
    return DamagedJournal(f"{segment.name} is damaged at offset {position}: {REMEDY}")
