"""META: what is true of a whole data directory.

    {"broker": uuid, "receipt_key": 64 hex digits, "created_ms": n, "oldest": segment number, "format": 1, "crc32c": n}
    encrypted:  "format": 2 with "keys": [32 hex digits, ...] behind it

`oldest` is raised before a segment is removed: an older segment that comes back after a crash is removed again, and
a missing one that is not older is damage. `keys` are the ids of the master keys that something in the directory may
need: an id is added before its key encrypts the first object, and taken out after the last one was encrypted anew. The
checksum is of the same JSON without it.
"""

import dataclasses
import json
import secrets
import uuid

from leveret.core.errors import DamagedJournal, UnknownFormat
from leveret.storage.disk import Disk, replace_file
from leveret.storage.journal.records import crc32c

META_NAME = "META"
FORMAT, ENCRYPTED_FORMAT = 1, 2


@dataclasses.dataclass(frozen=True)
class Meta:
    """The facts in META."""

    broker: str
    receipt_key: str
    created_ms: int
    oldest: int = 1
    keys: tuple[str, ...] = ()

    @property
    def format(self) -> int:
        """What a version has to read; older ones do not know derived keys."""
        return ENCRYPTED_FORMAT if self.keys else FORMAT


def new_meta(now_ms: int) -> Meta:
    """The facts of a directory that begins now."""
    return Meta(str(uuid.uuid4()), secrets.token_hex(32), now_ms)


def write_meta(disk: Disk, meta: Meta) -> None:
    """Write META durably."""
    replace_file(disk, META_NAME, packed_meta(meta).encode())


def packed_meta(meta: Meta) -> str:
    """META as it is stored."""
    facts = {name: value for name, value in dataclasses.asdict(meta).items() if name != "keys"}
    facts["format"] = meta.format
    if meta.keys:
        facts["keys"] = list(meta.keys)
    return json.dumps({**facts, "crc32c": _checksum(facts)})


def meta_is_whole(disk: Disk) -> bool:
    """Whether META is as it was written, to the last byte."""
    try:
        return packed_meta(read_meta(disk)).encode() == disk.read_all(META_NAME)
    except (DamagedJournal, UnknownFormat):
        return False


def read_meta(disk: Disk) -> Meta:
    """Read META of a directory."""
    return parse_meta(disk.read_all(META_NAME))


def parse_meta(stored: str | bytes) -> Meta:
    """META from what is stored; refuse what a newer version wrote."""
    try:
        facts = json.loads(stored)
        version = facts["format"]
        if isinstance(version, int) and version not in (FORMAT, ENCRYPTED_FORMAT):
            raise UnknownFormat(
                f"the data has format {version}, this version reads up to {ENCRYPTED_FORMAT}: use the one that wrote it"
            )
        if facts.pop("crc32c") == _checksum(facts):
            del facts["format"]
            return Meta(**{**facts, "keys": tuple(facts.get("keys", ()))})
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise DamagedJournal(f"{META_NAME} is damaged: restore it from a backup")


def _checksum(facts: dict[str, object]) -> int:
    """What tells a changed META from the one that was written."""
    return crc32c(json.dumps(facts).encode())
