"""Segments: the files of a stream, each with an index beside it.

    header 64  | magic 4 | version 2 | - 2 | base offset 8 | salt 4 | partition 4 | partitions 4 | - 32 | crc32c 4 |

The salt is random and repeated in each block, so that bytes of another file never pass for blocks of this one. Which
partition of how many it is says whether keys are still looked for where they were put.

Encryption of a stream at rest: AES-256-GCM over the records of each block; an index is a sealed box.

    sealed        | id of the master key 16 | key salt 12 | nonce 12 | encrypted | tag 16 |
    before that   | id of the master key 16 | nonce 12 | encrypted | tag 16 |, by the master key itself

A block with the flag DERIVED has the first form. Its key is derived from the master key (storage/encryption.py) by the
key salt, which is drawn for each segment and each process that writes to it. The salt is in every block and not in the
header of the segment: recovery copies blocks from one segment to another, and repairs segments without a header.
Nonces are random: a block torn by a crash is cut and its offset given again, so offsets would repeat. A key encrypts
the blocks of one segment, far fewer than the 2^32 up to which random nonces of 96 bits are safe.

All blocks of a segment have keys of the same master key: a writer with another one begins a new segment.

The header of a block stays readable and is authenticated: lengths, offsets, times and the two bits of a filter value
are not secret, and a block moved to another place does not decrypt.
"""

import secrets
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from leveret.core.errors import DamagedJournal, UnknownFormat, WrongKey
from leveret.storage import segments
from leveret.storage.disk import Bytes, Disk, read_start, reading
from leveret.storage.encryption import KEY_ID_BYTES, NO_SALT, NONCE_BYTES, SALT_BYTES, TAG_BYTES, KeyRef, MasterKeys
from leveret.storage.journal.records import crc32c
from leveret.storage.segments import HEADER_BYTES, occurrences
from leveret.storage.stream.blocks import HEAD_BYTES, MAGIC, Block, BlockHead, block_bytes, read_head

REMEDY = "restore the stream from a backup, or start once with salvage to skip what is damaged"

_HEADER = struct.Struct("<4sH2xQIII32xI")
_MAGIC = b"LSTR"
_VERSION = 1
_PREFIX, _SUFFIX = "stream-", ".log"
PIECE_BYTES = 1 << 20


class PartitionShare(NamedTuple):
    """Which partition of how many a log is."""

    partition: int = 0
    partitions: int = 1


def segment_name(base: int) -> str:
    """The file name of the segment whose first record has this offset."""
    return f"{_PREFIX}{base:020d}{_SUFFIX}"


def base_of(name: str) -> int:
    """The offset that the name of a segment, or of what belongs to it, says."""
    return int(name.removeprefix(_PREFIX).partition(".")[0])


def bases(disk: Disk, suffix: str = _SUFFIX) -> list[int]:
    """The segments (or their indexes) that exist, oldest first."""
    return segments.numbers(disk, _PREFIX, suffix)


def pack_header(base: int, salt: int, share: PartitionShare) -> bytes:
    """The bytes of the header."""
    return segments.pack_header(_HEADER, _MAGIC, _VERSION, base, salt, *share)


def parse_header(data: bytes, base: int) -> tuple[int, PartitionShare] | None:
    """The salt and share of a segment; None when its header is not whole."""
    facts = segments.parse_header(_HEADER, _MAGIC, data)
    if facts is None or facts[1] != base:
        return None
    version, _, salt, *share = facts
    if version != _VERSION:
        name = segment_name(base)
        raise UnknownFormat(f"{name} has version {version}, this one reads {_VERSION}: use the version that wrote it")
    return salt, PartitionShare(*share)


def read_header(disk: Disk, base: int) -> tuple[int, PartitionShare] | None:
    """The salt and share of a segment on a disk; None when its header is not whole."""
    return parse_header(read_start(disk, segment_name(base), HEADER_BYTES), base)


def damage(name: str, position: int) -> DamagedJournal:
    """What to say about bytes of a segment that are not as they were written."""
    return DamagedJournal(f"{name} is damaged at offset {position}: {REMEDY}")


@dataclass(slots=True)
class Segment:
    """What memory knows about a segment, however large it is."""

    base: int
    salt: int
    end: int
    """The offset after its last record."""
    size: int = HEADER_BYTES
    first_ms: int = 0
    last_ms: int = 0
    last_block: int = 0
    """The offset of the first record of its last block."""

    @property
    def name(self) -> str:
        return segment_name(self.base)


def holding(found: list[Segment], offset: int) -> Segment | None:
    """The segment that has a record of this offset, or will have it; the oldest one when it is gone."""
    found = found[:]  # retention may remove some of them meanwhile, in its own thread
    at = bisect_right(found, offset, key=lambda segment: segment.base) - 1
    return found[max(at, 0)] if found else None


class Blocks:
    """The good blocks of a file that is open for reading, wherever they lie: also behind a bad one."""

    def __init__(self, disk: Disk, fd: int, size: int, salt: int) -> None:
        """Read so much of a file; blocks with another salt are of another segment."""
        self._disk = disk
        self._fd = fd
        self._size = size
        self._salt = salt

    def at(self, position: int) -> tuple[bytes, BlockHead] | None:
        """A good block and its header; None when there is none at a position."""
        claimed = block_bytes(self._disk.pread(self._fd, HEAD_BYTES, position), 0)
        if not 0 < claimed <= self._size - position:
            return None
        data = self._disk.pread(self._fd, claimed, position)
        head = read_head(data, 0, self._salt)
        return None if head is None else (data, head)

    def following(self, position: int, first: int) -> Iterator[tuple[int, bytes, BlockHead]]:
        """The good blocks from a position on that go on where the one before ended, beginning with this offset."""
        while position < self._size and (found := self.at(position)) is not None and found[1].first == first:
            yield position, *found
            position, first = position + len(found[0]), first + found[1].count

    def after(self, position: int) -> Iterator[tuple[int, bytes, BlockHead]]:
        """Every good block at or after a position, with its own, found by how blocks begin."""
        for at in beginnings(self._disk, self._fd, position, self._size):
            found = self.at(at)
            if found is not None:
                yield at, *found


def beginnings(disk: Disk, fd: int, position: int, size: int) -> Iterator[int]:
    """Every position at or after this one where a block may begin."""
    while position < size:
        piece = disk.pread(fd, PIECE_BYTES, position)
        for at in occurrences(piece, MAGIC):
            yield position + at
        # The magic may lie across the ends of two pieces.
        position += max(1, len(piece) - len(MAGIC) + 1)


SEALING_BYTES = KEY_ID_BYTES + SALT_BYTES + NONCE_BYTES + TAG_BYTES
_SIZE, _SALT, _FLAGS = slice(8, 12), slice(48, 52), slice(52, 56)  # in the header of a block
_ENCRYPTED, _DERIVED = 4, 8  # flags, as in blocks.pxd
_INFO = b"leveret stream segment"


class Sealer:
    """Encrypts the blocks that one process writes to one segment."""

    def __init__(self, keys: MasterKeys) -> None:
        self._key = keys.new_key()
        self._cipher = keys.cipher(self._key, _INFO, keep=False)

    def seal(self, plain: Bytes, header: bytes) -> bytes:
        """Encrypt records; the header of their block is authenticated with them."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return self._key.key_id + self._key.salt + nonce + self._cipher.encrypt(nonce, plain, header)

    def finished(self, block: Block, salt: int, synced: int) -> bytes:
        plain = block.finish(salt, synced, SEALING_BYTES)
        return self._checked(bytes(plain[:HEAD_BYTES]), plain[HEAD_BYTES:])

    def sealed_again(self, keys: MasterKeys, data: bytes, head: BlockHead, salt: int) -> bytes:
        """A good block for a segment with another salt, encrypted by the key of that segment."""
        header = bytearray(data[head.start : head.start + HEAD_BYTES])
        header[_SALT] = salt.to_bytes(4, "little")
        if head.is_lost:
            return _with_checksum(header, b"")
        plain = opened(keys, data, head)
        records = plain[0][plain[1].start + HEAD_BYTES : plain[1].end]
        header[_SIZE] = (len(records) + SEALING_BYTES).to_bytes(4, "little")
        header[_FLAGS] = (head.flags | _ENCRYPTED | _DERIVED).to_bytes(4, "little")
        return self._checked(bytes(header), records)

    def _checked(self, header: bytes, records: Bytes) -> bytes:
        return _with_checksum(header, self.seal(records, header[8:]))


def _with_checksum(header: bytes | bytearray, rest: bytes) -> bytes:
    crc = crc32c(rest, crc32c(bytes(header[8:])))
    return bytes(header[:4]) + crc.to_bytes(4, "little") + bytes(header[8:]) + rest


def unsealed(keys: MasterKeys, sealed: bytes, header: bytes, derived: bool) -> bytes:
    """The reverse of Sealer.seal, and of what came before it."""
    key, at = _key(sealed, derived)
    nonce, rest = sealed[at : at + NONCE_BYTES], sealed[at + NONCE_BYTES :]
    return keys.cipher(key, _INFO).decrypt(nonce, rest, header)


def _key(sealed: bytes, derived: bool) -> tuple[KeyRef, int]:
    """The key of what is sealed, and where that goes on."""
    at = KEY_ID_BYTES + (SALT_BYTES if derived else 0)
    if len(sealed) < at + NONCE_BYTES:
        raise WrongKey("what is sealed is too short to be encrypted: restore the stream from a backup")
    return KeyRef(sealed[:KEY_ID_BYTES], sealed[KEY_ID_BYTES:at] or NO_SALT), at


def opened(keys: MasterKeys, data: bytes, head: BlockHead) -> tuple[bytes, BlockHead]:
    """A good block in which the records can be read, and its header."""
    if not head.is_encrypted:
        return data, head
    header = data[head.start : head.start + HEAD_BYTES]
    sealed = data[head.start + HEAD_BYTES : head.end]
    plain = header + unsealed(keys, sealed, header[8:], bool(head.flags & _DERIVED))
    return plain, head.alone(len(plain))


def decrypted(keys: MasterKeys, data: bytes, head: BlockHead) -> bytes:
    """A good block alone, as it would be if it had not been encrypted."""
    if not head.is_encrypted:
        return data[head.start : head.end]
    plain, _ = opened(keys, data, head)
    header = bytearray(plain[:HEAD_BYTES])
    header[_SIZE] = (len(plain) - HEAD_BYTES).to_bytes(4, "little")
    header[_FLAGS] = (head.flags & ~(_ENCRYPTED | _DERIVED)).to_bytes(4, "little")
    return _with_checksum(header, plain[HEAD_BYTES:])


def key_of(disk: Disk, segment: Segment) -> KeyRef | None:
    """The key of the first block of a segment that has records; None when there is no such block."""
    position = HEADER_BYTES
    with reading(disk, segment.name) as fd:
        while position < segment.size:
            data = disk.pread(fd, HEAD_BYTES + KEY_ID_BYTES + SALT_BYTES + NONCE_BYTES, position)
            size = block_bytes(data, 0)
            if size > HEAD_BYTES:
                flags = int.from_bytes(data[_FLAGS], "little")
                sealed = data[HEAD_BYTES:]
                return _key(sealed, bool(flags & _DERIVED))[0] if flags & _ENCRYPTED else KeyRef()
            if not size:
                return None
            position += size
    return None
