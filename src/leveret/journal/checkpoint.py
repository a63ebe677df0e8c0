"""Checkpoints: the whole state at one position of the log, so that recovery need not replay what lies before it.

    ckpt-<seq>.idx | header 64 | facts: JSON, {"placed": {segment: records}} | snapshot of the state |
    header    | magic 4 | version 2 | - 2 | segment 4 | offset 4 | seq 8 | key id 16 | facts_len 4 | - 16 | crc32c 4 |
    encrypted      | header 64 | nonce 12 | facts and snapshot | tag 16 |

A checkpoint is written only after every frame up to its position is durable: a log that ends before it is damaged.

It may name places in segments that have been removed since. That is safe: a segment is removed only after each record
that lived in it was settled or copied forward, and those entries were made after the checkpoint, so their replay
corrects every such place. When the segment that holds its own position is gone, entries to be replayed may be gone
with it: then the checkpoint is of no use, and the whole log is replayed, which needs no checkpoint ever.
"""

import json
import secrets
import struct
from typing import NamedTuple

from leveret.journal.disk import TEMPORARY, Bytes, Disk, replace_file
from leveret.journal.encryption import NONCE_BYTES, PLAIN, Keys
from leveret.journal.records import crc32c

_HEADER = struct.Struct("<4sHHIIQ16sI16xI")
_MAGIC = b"LCKP"
_VERSION = 1


class Position(NamedTuple):
    """A place between two frames: where the next one begins, and the number of the last one."""

    segment: int
    offset: int
    seq: int


class Checkpoint(NamedTuple):
    """What a checkpoint holds."""

    position: Position
    placed: dict[int, int]
    snapshot: Bytes


def checkpoint_name(seq: int) -> str:
    """The file name of the checkpoint after a frame."""
    return f"ckpt-{seq:020d}.idx"


def checkpoint_names(disk: Disk) -> list[str]:
    """The checkpoints that exist, newest first."""
    return sorted((n for n in disk.names() if n.startswith("ckpt-") and n.endswith(".idx")), reverse=True)


def write_checkpoint(disk: Disk, checkpoint: Checkpoint, keys: Keys) -> None:
    """Write a checkpoint durably, then remove the older ones."""
    name = checkpoint_name(checkpoint.position.seq)
    replace_file(disk, name, *packed_checkpoint(checkpoint, keys))
    for older in checkpoint_names(disk):
        if older != name:
            disk.unlink(older)


def packed_checkpoint(checkpoint: Checkpoint, keys: Keys) -> list[Bytes]:
    """The bytes of a checkpoint, in pieces that follow each other."""
    position = checkpoint.position
    facts = json.dumps({"placed": checkpoint.placed}).encode()
    header = _HEADER.pack(_MAGIC, _VERSION, 0, *position, keys.writing, len(facts), 0)[:-4]
    parts: list[Bytes] = [facts, checkpoint.snapshot]
    if keys:
        nonce = secrets.token_bytes(NONCE_BYTES)
        parts = [nonce, keys.encrypt(nonce, facts + checkpoint.snapshot, header)]
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
    return bool(magic == _MAGIC and version == _VERSION and crc == crc32c(rest, crc32c(header)))


def read_checkpoint(disk: Disk, name: str, keys: Keys) -> Checkpoint | None:
    """Read a checkpoint; None when it is damaged."""
    return parse_checkpoint(disk.read_all(name), keys)


def parse_checkpoint(stored: bytes, keys: Keys) -> Checkpoint | None:
    """A checkpoint from its bytes; None when they are damaged."""
    data = memoryview(stored)
    if not _is_whole(data):
        return None
    _, _, _, segment, offset, seq, key_id, facts_len, _ = _HEADER.unpack_from(data)
    header, rest = data[: _HEADER.size - 4], data[_HEADER.size :]
    if key_id != PLAIN:
        plain = keys.decrypt(key_id, bytes(rest[:NONCE_BYTES]), rest[NONCE_BYTES:], bytes(header))
        rest = memoryview(plain)
    if facts_len > len(rest):
        return None
    placed = {int(number): count for number, count in json.loads(bytes(rest[:facts_len]))["placed"].items()}
    return Checkpoint(Position(segment, offset, seq), placed, rest[facts_len:])


def remove_leftovers(disk: Disk) -> None:
    """Remove files that were being written when the process died."""
    for name in disk.names():
        if name.endswith(TEMPORARY):
            disk.unlink(name)
