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
from collections.abc import Iterator
from contextlib import suppress

from leveret.storage.disk import TEMPORARY, Bytes, Disk, NoRoom, discard, reading, write_beside
from leveret.storage.encryption import MasterKeys
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.files.segments import Blocks, Segment, damage, pack_header, read_header
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
        write_beside(disk, segment.name, _sealed_again(disk, segment, copy, keys))
    except BaseException:
        discard(disk, segment.name + TEMPORARY)
        raise
    return copy


def _sealed_again(disk: Disk, segment: Segment, copy: Index, keys: MasterKeys) -> Iterator[Bytes]:
    """The same blocks, encrypted anew, which the index of the copy takes in."""
    header = read_header(disk, segment.base)
    if header is None:
        raise damage(segment.name, 0)
    yield pack_header(segment.base, copy.segment.salt, header[1])
    sealer, end = Sealer(keys), HEADER_BYTES
    with reading(disk, segment.name) as fd:
        blocks = Blocks(disk, fd, segment.size, segment.salt)
        for position, data, head in blocks.following(HEADER_BYTES, segment.base):
            sealed = sealer.sealed_again(keys, data, head, copy.segment.salt)
            yield sealed
            copy.add(head, len(sealed), {})
            end = position + len(data)
    if end < segment.size:
        raise damage(segment.name, end)


def make_way(disk: Disk, segment: Segment) -> None:
    """Step 2."""
    discard(disk, index_name(segment.base))
    disk.sync_dir()


def settle(disk: Disk, copy: Index, keys: MasterKeys) -> None:
    """What follows the renaming; without room for an index it is made when the stream is opened."""
    disk.sync_dir()
    with suppress(NoRoom):
        write_index(disk, copy, keys)
