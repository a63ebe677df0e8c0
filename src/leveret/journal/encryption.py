"""Encryption at rest: AES-256-GCM over the bodies and entries of each frame, each checkpoint and each blob.

The header of a frame stays readable and is authenticated: lengths, numbers and times are not secret, and a frame
moved to another place does not decrypt. The nonce of a frame is `salt | seq`, 12 bytes. It never repeats under a key:
seq has no gaps and no repetitions, except that a frame torn by a crash is cut and its number given again; an
encrypted segment is therefore never continued after a restart, and the new one has a fresh random salt.
A checkpoint and a blob each have a random nonce of their own, in front of their bytes.

Several keys may be given: the first one writes, all of them read. A key is known by the start of its SHA-256.
"""

import base64
import binascii
import hashlib
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.core.errors import InvalidArgument, WrongKey
from leveret.journal.records import crc32c

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from leveret.journal.disk import Bytes
    from leveret.journal.records import Frame

KEY_BYTES = 32
KEY_ID_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16
PLAIN = bytes(KEY_ID_BYTES)
"""The key id of what is not encrypted."""


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


def load_keys(file: str | None = None, variable: str | None = None) -> "Keys":
    """The keys in a file (one to a line) or in an environment variable (separated by spaces); the first one writes."""
    text = ""
    if file is not None:
        text = Path(file).read_text(encoding="ascii")
    elif variable is not None:
        text = os.environ.get(variable, "")
    if (file or variable) and not text.split():
        raise InvalidArgument(f"no encryption key in {file or variable}: put one there, or switch encryption off")
    return Keys(*(parse_key(word) for word in text.split()))


def frame_nonce(salt: int, seq: int) -> bytes:
    """The nonce of a frame; see above for why it is used once."""
    return struct.pack("<IQ", salt, seq)


def sealed_frame(keys: "Keys", salt: int, frame: "Frame") -> bytes:
    """A finished frame as it lies encrypted in its segment; its checksum is of what is stored."""
    header = frame.header()
    sealed = keys.encrypt(frame_nonce(salt, frame.seq), frame.plain(), header[8:])
    crc = crc32c(sealed, crc32c(header[8:]))
    return header[:4] + crc.to_bytes(4, "little") + header[8:] + sealed


class Keys:
    """The keys that were given, by id; none at all means that nothing is encrypted."""

    def __init__(self, *keys: bytes) -> None:
        """Take 32-byte keys, the one for writing first."""
        self._ciphers: dict[bytes, AESGCM] = {}
        for key in keys:
            if len(key) != KEY_BYTES:
                raise InvalidArgument(f"an encryption key is {KEY_BYTES} bytes, not {len(key)}")
            self._ciphers[hashlib.sha256(key).digest()[:KEY_ID_BYTES]] = _cipher(key)
        self.writing = next(iter(self._ciphers), PLAIN)

    def __bool__(self) -> bool:
        """Whether new data is encrypted."""
        return self.writing != PLAIN

    def encrypt(self, nonce: bytes, data: "Bytes", header: bytes) -> bytes:
        """Encrypt with the first key."""
        return self._ciphers[self.writing].encrypt(nonce, data, header)

    def decrypt(self, key_id: bytes, nonce: bytes, data: "Bytes", header: bytes) -> bytes:
        """Decrypt with the key of that id."""
        from cryptography.exceptions import InvalidTag

        try:
            return self.cipher(key_id).decrypt(nonce, data, header)
        except InvalidTag:
            raise WrongKey(f"what key {key_id.hex()} wrote does not decrypt: it was tampered with") from None

    def cipher(self, key_id: bytes) -> "AESGCM":
        """The cipher of a key, or an error that says which key is needed."""
        try:
            return self._ciphers[key_id]
        except KeyError:
            given = ", ".join(known.hex() for known in self._ciphers) or "none"
            raise WrongKey(f"the data needs the key with id {key_id.hex()}; given: {given}") from None


def _cipher(key: bytes) -> "AESGCM":
    """The cipher of one key; the library is needed only by those who encrypt."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise InvalidArgument("encryption needs a library: pip install 'leveret[encryption]'") from None
    return AESGCM(key)
