"""Encryption of a stream at rest: AES-256-GCM over the records of each block; an index is a sealed box.

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

from leveret.core.errors import WrongKey
from leveret.storage.disk import Bytes, Disk, reading
from leveret.storage.encryption import KEY_ID_BYTES, NO_SALT, NONCE_BYTES, SALT_BYTES, TAG_BYTES, KeyRef, MasterKeys
from leveret.storage.journal.records import crc32c
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.blocks import HEAD_BYTES, Block, BlockHead, block_bytes
from leveret.storage.stream.segments import Segment

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
