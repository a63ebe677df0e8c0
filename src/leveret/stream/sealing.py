"""Encryption of a stream at rest: AES-256-GCM over the records of each block and over each index.

    sealed   | key id 16 | nonce 12 | encrypted | tag 16 |

The header of a block stays readable and is authenticated: lengths, offsets, times and the two bits of a filter value
are not secret, and a block moved to another place does not decrypt. Nonces are random: a block torn by a crash is cut
and its offset given again, so offsets would repeat. Each block names its key, so that keys may change at any time.
"""

import secrets

from leveret.core.errors import WrongKey
from leveret.journal.disk import Bytes
from leveret.journal.encryption import KEY_ID_BYTES, NONCE_BYTES, TAG_BYTES, Keys
from leveret.journal.records import crc32c
from leveret.stream.blocks import HEAD_BYTES, Block, Head

PREFIX_BYTES = KEY_ID_BYTES + NONCE_BYTES
SEALING_BYTES = PREFIX_BYTES + TAG_BYTES
_SIZE, _FLAGS = slice(8, 12), slice(52, 56)  # in the header of a block
_ENCRYPTED = 4  # the flag, as in blocks.pxd


def seal(keys: Keys, plain: Bytes, header: bytes) -> bytes:
    """Encrypt with the key that writes; the header goes with it, readable."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return keys.writing + nonce + keys.encrypt(nonce, plain, header)


def unseal(keys: Keys, sealed: bytes, header: bytes) -> bytes:
    """The reverse of seal."""
    if len(sealed) < SEALING_BYTES:
        raise WrongKey("what is sealed is too short to be encrypted: restore the stream from a backup")
    return keys.decrypt(sealed[:KEY_ID_BYTES], sealed[KEY_ID_BYTES:PREFIX_BYTES], sealed[PREFIX_BYTES:], header)


def finished(keys: Keys, block: Block, salt: int, synced: int) -> Bytes:
    """A block as it is written."""
    if not keys:
        return block.finish(salt, synced)
    plain = block.finish(salt, synced, SEALING_BYTES)
    header = bytes(plain[:HEAD_BYTES])
    sealed = seal(keys, plain[HEAD_BYTES:], header[8:])
    crc = crc32c(sealed, crc32c(header[8:]))
    return header[:4] + crc.to_bytes(4, "little") + header[8:] + sealed


def opened(keys: Keys, data: bytes, head: Head) -> tuple[bytes, Head]:
    """A good block in which the records can be read, and its header."""
    if not head.is_encrypted:
        return data, head
    header = data[head.start : head.start + HEAD_BYTES]
    plain = header + unseal(keys, data[head.start + HEAD_BYTES : head.end], header[8:])
    return plain, head.alone(len(plain))


def decrypted(keys: Keys, data: bytes, head: Head) -> bytes:
    """A good block alone, as it would be if it had not been encrypted."""
    if not head.is_encrypted:
        return data[head.start : head.end]
    plain, _ = opened(keys, data, head)
    header = bytearray(plain[:HEAD_BYTES])
    header[_SIZE] = (len(plain) - HEAD_BYTES).to_bytes(4, "little")
    header[_FLAGS] = (head.flags & ~_ENCRYPTED).to_bytes(4, "little")
    crc = crc32c(plain[HEAD_BYTES:], crc32c(bytes(header[8:])))
    header[4:8] = crc.to_bytes(4, "little")
    return bytes(header) + plain[HEAD_BYTES:]
