"""Checkpoints: the whole state at one position of the log, so that recovery need not replay what lies before it.

    ckpt-<seq>.idx | header 64 | facts: JSON, {"placed": {segment: records}} | snapshot of the state |
    header    | magic 4 | version 2 | - 2 | segment 4 | offset 4 | seq 8 | key id 16 | facts_len 4 | key salt 12 | - 4 |
              | crc32c 4 |
    encrypted      | header 64 | facts and snapshot | tag 16 |
    version 1      had no key salt: not encrypted, or | header 64 | nonce 12 | facts and snapshot | tag 16 | by the
                   master key

A checkpoint is written only after every commit batch up to its position is durable: a log that ends before it is
damaged.

It may name places in segments that have been removed since. That is safe: a segment is removed only after each record
that lived in it was settled or copied forward, and those entries were made after the checkpoint, so their replay
corrects every such place. When the segment that holds its own position is gone, entries to be replayed may be gone
with it: then the checkpoint is of no use, and the whole log is replayed, which needs no checkpoint ever.
"""

import json
import struct
from typing import NamedTuple

from leveret.storage.disk import Bytes, Disk, replace_file
from leveret.storage.encryption import NO_SALT, NONCE_BYTES, ONCE, KeyRef, MasterKeys
from leveret.storage.journal.records import crc32c

_HEADER = struct.Struct("<4sHHIIQ16sI12s4xI")
_MAGIC = b"LCKP"
_VERSION, _DERIVED_VERSION = 1, 2
_INFO = b"leveret checkpoint "


class Position(NamedTuple):
    """A place between two commit batches: where the next one begins, and the number of the last one."""

    segment: int
    offset: int
    seq: int


class Checkpoint(NamedTuple):
    """What a checkpoint holds."""

    position: Position
    placed: dict[int, int]
    snapshot: Bytes


def checkpoint_name(seq: int) -> str:
    """The file name of the checkpoint after a commit batch."""
    return f"ckpt-{seq:020d}.idx"


def checkpoint_names(disk: Disk) -> list[str]:
    """The checkpoints that exist, newest first."""
    return sorted((n for n in disk.names() if n.startswith("ckpt-") and n.endswith(".idx")), reverse=True)


def write_checkpoint(disk: Disk, checkpoint: Checkpoint, keys: MasterKeys) -> None:
    """Write a checkpoint durably, then remove the older ones."""
    name = checkpoint_name(checkpoint.position.seq)
    replace_file(disk, name, *packed_checkpoint(checkpoint, keys))
    for older in checkpoint_names(disk):
        if older != name:
            disk.unlink(older)


def packed_checkpoint(checkpoint: Checkpoint, keys: MasterKeys) -> list[Bytes]:
    """The bytes of a checkpoint, in pieces that follow each other."""
    position = checkpoint.position
    facts = json.dumps({"placed": checkpoint.placed}).encode()
    key = keys.new_key()
    version = _DERIVED_VERSION if key.is_derived else _VERSION
    header = _HEADER.pack(_MAGIC, version, 0, *position, key.key_id, len(facts), key.salt, 0)[:-4]
    parts: list[Bytes] = [facts, checkpoint.snapshot]
    if keys:
        cipher = keys.cipher(key, _info(position.seq), keep=False)
        parts = [cipher.encrypt(ONCE, facts + checkpoint.snapshot, header)]
    crc = crc32c(header)
    for part in parts:
        crc = crc32c(part, crc)
    return [header, struct.pack("<I", crc), *parts]


def checkpoint_is_whole(disk: Disk, name: str) -> bool:
    """Whether a checkpoint is as it was written."""
    return _is_whole(memoryview(disk.read_all(name)))


def _is_whole(data: memoryview) -> bool:
    """Whether magic number, version and checksum are right."""
    if len(data) < _HEADER.size:
        return False
    magic, version, *_, crc = _HEADER.unpack_from(data)
    header, rest = data[: _HEADER.size - 4], data[_HEADER.size :]
    known = magic == _MAGIC and version in (_VERSION, _DERIVED_VERSION)
    return bool(known and crc == crc32c(rest, crc32c(header)))


def read_checkpoint(disk: Disk, name: str, keys: MasterKeys) -> Checkpoint | None:
    """Read a checkpoint; None when it is damaged."""
    return parse_checkpoint(disk.read_all(name), keys)


def parse_checkpoint(stored: bytes, keys: MasterKeys) -> Checkpoint | None:
    """A checkpoint from its bytes; None when they are damaged."""
    data = memoryview(stored)
    if not _is_whole(data):
        return None
    _, version, _, segment, offset, seq, key_id, facts_len, salt, _ = _HEADER.unpack_from(data)
    header, rest = data[: _HEADER.size - 4], data[_HEADER.size :]
    key = KeyRef(key_id, NO_SALT if version == _VERSION else salt)
    if not key.is_plain:
        at = 0 if key.is_derived else NONCE_BYTES
        nonce = bytes(rest[:at]) or ONCE
        rest = memoryview(keys.cipher(key, _info(seq), keep=False).decrypt(nonce, rest[at:], bytes(header)))
    if facts_len > len(rest):
        return None
    placed = {int(number): count for number, count in json.loads(bytes(rest[:facts_len]))["placed"].items()}
    return Checkpoint(Position(segment, offset, seq), placed, rest[facts_len:])


def _info(seq: int) -> bytes:
    """What the key of a checkpoint is derived for."""
    return _INFO + str(seq).encode()
