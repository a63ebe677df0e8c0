"""Encryption at rest: AES-256-GCM with a key of its own for each segment, checkpoint, index, blob and staged piece.

    master key   32 bytes, from the key file; its id is the start of its SHA-256. It encrypts nothing itself.
    derived key  HKDF-SHA256 (RFC 5869): | key material: the master key | salt: 12 random bytes | info: purpose, id |
                 The salt and the id of the master key are in the clear in the header of what is encrypted.
    commit batch        | header 48, readable, authenticated | bodies and entries, encrypted | tag 16 |
    sealed box   | id of the master key 16 | salt 12 | encrypted | tag 16 |    a checkpoint has the first two elsewhere

What was written by earlier versions (segments of version 1) is encrypted by the master key itself, and is read so.

Why no nonce is used twice under one key:
- A derived key belongs to one object that one process writes: the salt is drawn when the object is begun. Two objects
  have the same key only if 96 random bits, the purpose and the id are equal.
- A segment: the nonce of a commit batch is `salt of the commit batch 4 | seq 8`, and seq rises by one with each commit
batch. A commit batch that
  is written again, because a write failed, has the same bytes as before: it is encrypted once. A commit batch torn by
  a crash is cut, and its number is given again: therefore an encrypted segment is never continued after a restart, and
  the next one has a salt, and so a key, of its own. A segment has a few GiB at most, far below the limits of GCM.
- A stream: blocks have random nonces, because recovery cuts blocks and gives their offsets again
(storage/stream/segments.py).
- A sealed box: the key encrypts one message only, with the nonce 0.

Several master keys may be given: the first one writes, all of them read. META names those that are needed.
"""

import base64
import binascii
import hashlib
import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from leveret.core.errors import InvalidArgument, WrongKey
from leveret.storage.journal.records import crc32c

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from leveret.storage.disk import Bytes
    from leveret.storage.journal.records import CommitBatch

KEY_BYTES = 32
KEY_ID_BYTES = 16
SALT_BYTES = 12
NONCE_BYTES = 12
TAG_BYTES = 16
PLAIN = bytes(KEY_ID_BYTES)
"""The key id of what is not encrypted."""
NO_SALT = bytes(SALT_BYTES)
"""The salt of what the master key itself encrypts."""
BOX_HEAD_BYTES = KEY_ID_BYTES + SALT_BYTES
BOX_BYTES = BOX_HEAD_BYTES + TAG_BYTES
"""By how much a sealed box is longer than what is in it."""
CIPHERS_MAX = 256
"""Derived keys that are kept: those of the segments that are read at the same time."""
ONCE = bytes(NONCE_BYTES)
"""The nonce of a key that encrypts one message."""


class KeyRef(NamedTuple):
    """Which key encrypts an object: stored in the clear with it."""

    key_id: bytes = PLAIN
    salt: bytes = NO_SALT

    @property
    def is_plain(self) -> bool:
        return self.key_id == PLAIN

    @property
    def is_derived(self) -> bool:
        return self.salt != NO_SALT


def parse_key(text: str) -> bytes:
    """A key from hexadecimal or base64 text."""
    text = text.strip()
    try:
        key = bytes.fromhex(text) if len(text) == 2 * KEY_BYTES else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidArgument(f"an encryption key is {KEY_BYTES} bytes, as hexadecimal or base64 text")
    return key


def load_keys(file: str | None = None, variable: str | None = None) -> "MasterKeys":
    """The keys in a file (one to a line) or in an environment variable (separated by spaces); the first one writes."""
    text = ""
    if file is not None:
        text = Path(file).read_text(encoding="ascii")
    elif variable is not None:
        text = os.environ.get(variable, "")
    if (file or variable) and not text.split():
        raise InvalidArgument(f"no encryption key in {file or variable}: put one there, or switch encryption off")
    return MasterKeys(*(parse_key(word) for word in text.split()))


def hkdf(key: bytes, salt: bytes, info: bytes, size: int = KEY_BYTES) -> bytes:
    """HKDF-SHA256 of RFC 5869."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), size, salt, info).derive(key)


def batch_nonce(salt: int, seq: int) -> bytes:
    """The nonce of a commit batch; see above for why it is used once."""
    return struct.pack("<IQ", salt, seq)


def sealed_batch(cipher: "SegmentCipher", salt: int, batch: "CommitBatch") -> bytes:
    """A finished commit batch as it lies encrypted in its segment; its checksum is of what is stored."""
    header = batch.header()
    return checked(header, cipher.encrypt(batch_nonce(salt, batch.seq), batch.plain(), header[8:]))


def checked(header: bytes, sealed: bytes) -> bytes:
    """An encrypted commit batch with its checksum."""
    crc = crc32c(sealed, crc32c(header[8:]))
    return header[:4] + crc.to_bytes(4, "little") + header[8:] + sealed


def seal(keys: "MasterKeys", info: bytes, plain: "Bytes", header: bytes = b"") -> bytes:
    """A sealed box of what has its key for itself; the header is authenticated with it."""
    key = keys.new_key()
    return key.key_id + key.salt + keys.cipher(key, info, keep=False).encrypt(ONCE, plain, header)


def unseal(keys: "MasterKeys", info: bytes, box: bytes, header: bytes = b"") -> bytes:
    """The reverse of seal."""
    return keys.cipher(box_key(box), info, keep=False).decrypt(ONCE, box[BOX_HEAD_BYTES:], header)


def box_key(box: bytes) -> KeyRef:
    """The key of a sealed box."""
    if len(box) < BOX_BYTES:
        raise WrongKey("what is sealed is too short to be encrypted: restore it from a backup")
    return KeyRef(box[:KEY_ID_BYTES], box[KEY_ID_BYTES:BOX_HEAD_BYTES])


class SegmentCipher:
    """One key at work."""

    def __init__(self, key_id: bytes, key: bytes) -> None:
        """Use a key that a master key of that id is, or that was derived from it."""
        self._key_id = key_id
        self._aes = _aes(key)

    def encrypt(self, nonce: bytes, data: "Bytes", header: bytes) -> bytes:
        return self._aes.encrypt(nonce, data, header)

    def decrypt(self, nonce: bytes, data: "Bytes", header: bytes) -> bytes:
        """Decrypt; refuse what was not encrypted by this key, or was changed since."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aes.decrypt(nonce, data, header)
        except InvalidTag:
            raise WrongKey(
                f"what key {self._key_id.hex()} wrote does not decrypt: it was tampered with; restore a backup"
            ) from None


class MasterKeys:
    """The master keys that were given, by id; none at all means that nothing is encrypted."""

    def __init__(self, *keys: bytes) -> None:
        self._keys: dict[bytes, bytes] = {}
        for key in keys:
            if len(key) != KEY_BYTES:
                raise InvalidArgument(f"an encryption key is {KEY_BYTES} bytes, not {len(key)}")
            self._keys[hashlib.sha256(key).digest()[:KEY_ID_BYTES]] = key
        if keys:
            _aes(keys[0])  # refuses if the library is missing
        self.writing = next(iter(self._keys), PLAIN)
        self._ciphers: dict[tuple[KeyRef, bytes], SegmentCipher] = {}

    def __bool__(self) -> bool:
        return self.writing != PLAIN

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._keys)

    def new_key(self) -> KeyRef:
        """The key of an object that is begun now: derived from the first master key by a salt of its own."""
        return KeyRef(self.writing, secrets.token_bytes(SALT_BYTES)) if self else KeyRef()

    def is_current(self, key: KeyRef) -> bool:
        """Whether an object has a key as new ones get: derived from the first master key."""
        return key.is_derived and key.key_id == self.writing

    def cipher(self, key: KeyRef, info: bytes, keep: bool = True) -> SegmentCipher:
        """The cipher of an object: `info` is its purpose and its id. One that is used once need not be kept."""
        found = self._ciphers.get((key, info))
        if found is None:
            self.require((key.key_id,))
            master = self._keys[key.key_id]
            found = SegmentCipher(key.key_id, hkdf(master, key.salt, info) if key.is_derived else master)
            if keep:
                if len(self._ciphers) >= CIPHERS_MAX:
                    self._ciphers.clear()
                self._ciphers[key, info] = found
        return found

    def require(self, needed: Iterable[bytes]) -> None:
        """Refuse if a master key is missing: say which one, and what to do."""
        for key_id in needed:
            if key_id not in self._keys and key_id != PLAIN:
                given = ", ".join(known.hex() for known in self._keys) or "none"
                raise WrongKey(
                    f"the data needs the key with id {key_id.hex()}; given: {given}. Put that key back into the key "
                    "file, behind the key that is to write; `leveret journal rotate-key` says when it may be removed"
                )


def _aes(key: bytes) -> "AESGCM":
    """AES-GCM with one key; the library is needed only by those who encrypt."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise InvalidArgument("encryption needs a library: pip install 'leveret[encryption]'") from None
    return AESGCM(key)
