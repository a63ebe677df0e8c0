"""Segments: the files of the log, and reading single records back from them.

    header 64  | magic 4 | version 2 | flags 2 | segment 4 | first seq 8 | salt 4 | key id 16 | key salt 12 | - 8 |
               | crc32c 4 |

The salt is random and repeated in each commit batch, so that bytes of another file never pass for commit batches of
this one. Version 1: not encrypted, or by the master key itself. Version 2: by a key of the segment, derived by the key
salt, which is random too, from the master key with that id (encryption.py).
"""

import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from leveret.core.errors import DamagedJournal, UnknownFormat
from leveret.storage import segments
from leveret.storage.disk import Bytes, Disk, read_start
from leveret.storage.encryption import (
    NO_SALT,
    TAG_BYTES,
    KeyRef,
    MasterKeys,
    SegmentCipher,
    batch_nonce,
    checked,
)
from leveret.storage.journal.entries import read_head
from leveret.storage.segments import HEADER_BYTES

FRAME_HEADER_BYTES = 48
OPEN_FILES_MAX = 64
WINDOW_BYTES = 256 << 10
"""Read at once: a backlog is drained in the order in which it was written."""

_HEADER = struct.Struct("<4sHHIQI16s12s8xI")
_LENGTHS = struct.Struct("<II")  # of the bodies and of the entries, in the header of a commit batch
_LENGTHS_AT, _SEQ_AT, _WHEN_AT, _FLAGS_AT = 8, slice(16, 24), slice(24, 32), 36
_MAGIC = b"LSEG"
FRAME_MAGIC = b"LFRM"
_VERSION, _DERIVED_VERSION = 1, 2
_INFO = b"leveret journal segment "
_SHARD = "shard="
ENCRYPTED = 1


def segment_name(segment: int) -> str:
    """The file name of a segment."""
    return f"seg-{segment:020d}.log"


def shard_name(shard: int) -> str:
    """The folder of a shard in an archive, where the segments of others have the same names."""
    return f"{_SHARD}{shard}"


def shard_of(folder: str) -> int | None:
    """The shard whose folder this is, if it is one."""
    number = folder.removeprefix(_SHARD)
    return int(number) if folder.startswith(_SHARD) and number.isdecimal() else None


def segment_numbers(disk: Disk) -> list[int]:
    """The segments that exist, oldest first."""
    return segments.numbers(disk, "seg-", ".log")


class SegmentHeader(NamedTuple):
    """What the first 64 bytes of a segment say."""

    segment: int
    first_seq: int
    salt: int
    key: KeyRef = KeyRef()

    def pack(self) -> bytes:
        flags = 0 if self.key.is_plain else ENCRYPTED
        version = _DERIVED_VERSION if self.key.is_derived else _VERSION
        facts = (self.segment, self.first_seq, self.salt, *self.key)
        return segments.pack_header(_HEADER, _MAGIC, version, flags, *facts)

    def cipher(self, keys: MasterKeys) -> SegmentCipher:
        return keys.cipher(self.key, _INFO + str(self.segment).encode())

    def opened(self, keys: MasterKeys, seq: int, sealed: Bytes, authentic: bytes) -> bytes:
        """The bodies and entries of an encrypted commit batch of the segment."""
        return self.cipher(keys).decrypt(batch_nonce(self.salt, seq), sealed, authentic)

    def opener(self, keys: MasterKeys) -> Callable[[bytes, bytes], bytes] | None:
        """What opens a commit batch of the segment by its header; None: they are not encrypted."""
        if self.key.is_plain:
            return None
        return lambda head, sealed: self.opened(keys, int.from_bytes(head[_SEQ_AT], "little"), sealed, head[8:])

    def bodies(self, keys: MasterKeys, batch: bytes) -> bytes | None:
        """The bodies of a whole encrypted commit batch of the segment; None when it is damaged."""
        head = read_head(batch, 0, self.salt)
        if head is None:
            return None
        sealed, authentic = batch[FRAME_HEADER_BYTES : head.end], batch[8:FRAME_HEADER_BYTES]
        return self.opened(keys, head.seq, sealed, authentic)[: head.body_len]


def parse_header(data: Bytes, segment: int) -> SegmentHeader | None:
    """Read the header of a segment; None when it is not whole."""
    facts = segments.parse_header(_HEADER, _MAGIC, data)
    if facts is None or facts[2] != segment:
        return None
    version, _, number, first_seq, salt, key_id, key_salt = facts
    if version not in (_VERSION, _DERIVED_VERSION):
        name = segment_name(segment)
        raise UnknownFormat(
            f"{name} has version {version}, this one reads up to {_DERIVED_VERSION}: use the version that wrote it"
        )
    return SegmentHeader(number, first_seq, salt, KeyRef(key_id, NO_SALT if version == _VERSION else key_salt))


def read_header(disk: Disk, segment: int) -> SegmentHeader | None:
    """The header of a segment on a disk; None when it is not whole."""
    return parse_header(read_start(disk, segment_name(segment), HEADER_BYTES), segment)


def begun_ms(disk: Disk, segment: int) -> int | None:
    """When the first commit batch of a segment was sealed; None when there is none, or no segment."""
    try:
        batch = read_start(disk, segment_name(segment), HEADER_BYTES + FRAME_HEADER_BYTES)[HEADER_BYTES:]
    except FileNotFoundError:
        return None
    return when_ms(batch)


def when_ms(batch: Bytes) -> int | None:
    """When a commit batch was sealed, by its header."""
    whole = len(batch) >= FRAME_HEADER_BYTES and bytes(batch[:4]) == FRAME_MAGIC
    return int.from_bytes(batch[_WHEN_AT], "little") if whole else None


def resealed(data: bytes, segment: int, keys: MasterKeys) -> bytes:
    """A whole segment, encrypted by the first key; its salt stays, by which archives know it."""
    header = parse_header(data, segment)
    if header is None:
        raise DamagedJournal(f"{segment_name(segment)} has a damaged header: restore it from a backup")
    new, offset = header._replace(key=keys.new_key()), HEADER_BYTES
    cipher, open_batch = new.cipher(keys), header.opener(keys)
    parts = [new.pack()]
    while (head := read_head(data, offset, header.salt)) is not None:
        start = offset + FRAME_HEADER_BYTES
        fields, rest = data[offset:start], data[start : head.end]
        plain = rest if open_batch is None else open_batch(fields, rest)
        fields = fields[:_FLAGS_AT] + (head.flags | ENCRYPTED).to_bytes(4, "little") + fields[_FLAGS_AT + 4 :]
        parts.append(checked(fields, cipher.encrypt(batch_nonce(header.salt, head.seq), plain, fields[8:])))
        offset = head.end
    if offset < len(data):
        raise DamagedJournal(f"{segment_name(segment)} is damaged at {offset}: restore it from a backup")
    return b"".join(parts)


class SegmentReader:
    """Reads records back: a bounded number of open files, encrypted commit batches decrypted whole."""

    def __init__(self, disk: Disk, keys: MasterKeys) -> None:
        self._disk = disk
        self._keys = keys
        self._files: OrderedDict[int, int] = OrderedDict()
        self._headers: dict[int, SegmentHeader] = {}
        self._starts: dict[int, list[int]] = {}

    def window(self, segment: int, offset: int, size: int, end: int) -> tuple[int, bytes]:
        """Some bytes of a segment around a record, none at or after `end`, and the offset of the first."""
        try:
            fd = self._fd(segment)
            if not self._headers[segment].key.is_plain:
                return self._decrypted(segment, fd, offset)
            return offset, self._disk.pread(fd, min(max(size, WINDOW_BYTES), end - offset), offset)
        except OSError as error:
            raise DamagedJournal(f"{segment_name(segment)} cannot be read at offset {offset}: {error}") from error

    def forget(self, segment: int) -> None:
        """Close a segment that is going."""
        fd = self._files.pop(segment, None)
        if fd is not None:
            self._disk.close(fd)
        self._headers.pop(segment, None)
        self._starts.pop(segment, None)

    def close(self) -> None:
        for segment in list(self._files):
            self.forget(segment)

    def _fd(self, segment: int) -> int:
        """An open file, the least recently used one being closed when there are too many."""
        fd = self._files.get(segment)
        if fd is not None:
            self._files.move_to_end(segment)
            return fd
        fd = self._disk.open_read(segment_name(segment))
        self._files[segment] = fd
        header = parse_header(self._disk.pread(fd, HEADER_BYTES, 0), segment)
        if header is None:
            self.forget(segment)
            raise DamagedJournal(f"{segment_name(segment)} has a damaged header: restore it from a backup")
        self._headers[segment] = header
        if len(self._files) > OPEN_FILES_MAX:
            oldest, old_fd = self._files.popitem(last=False)
            self._disk.close(old_fd)
            self._headers.pop(oldest)
        return fd

    def _decrypted(self, segment: int, fd: int, offset: int) -> tuple[int, bytes]:
        """The bodies of the encrypted commit batch that holds an offset."""
        start = self._batch_start(segment, fd, offset)
        size = max(0, min(self._batch_bytes(fd, start), self._disk.size(segment_name(segment)) - start))
        bodies = self._headers[segment].bodies(self._keys, self._disk.pread(fd, size, start))
        if bodies is None:
            raise DamagedJournal(f"{segment_name(segment)} is damaged at {start}: restore it from a backup")
        return start + FRAME_HEADER_BYTES, bodies

    def _batch_start(self, segment: int, fd: int, offset: int) -> int:
        """Where the encrypted commit batch that holds an offset begins; their headers are walked once."""
        starts = self._starts.setdefault(segment, [HEADER_BYTES])
        while starts[-1] < offset and (size := self._batch_bytes(fd, starts[-1])):
            starts.append(starts[-1] + size)
        return starts[bisect_right(starts, offset) - 1]

    def _batch_bytes(self, fd: int, start: int) -> int:
        """How long the encrypted commit batch is that begins here, by its own word; 0 when none does."""
        head = self._disk.pread(fd, FRAME_HEADER_BYTES, start)
        if len(head) < FRAME_HEADER_BYTES or not head.startswith(FRAME_MAGIC):
            return 0
        body_len, index_len = _LENGTHS.unpack_from(head, _LENGTHS_AT)
        return FRAME_HEADER_BYTES + int(body_len) + int(index_len) + TAG_BYTES
