"""META: what is true of a whole data directory.

    {"format": 1, "broker": uuid, "receipt_key": 64 hex digits, "created_ms": n, "oldest": segment number}

`oldest` is raised before a segment is removed: an older segment that comes back after a crash is removed again, and
a missing one that is not older is damage.
"""

import dataclasses
import json
import secrets
import uuid

from leveret.core.errors import DamagedJournal, UnknownFormat
from leveret.journal.disk import Disk, replace_file

META_NAME = "META"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Meta:
    """The facts in META."""

    broker: str
    receipt_key: str
    created_ms: int
    oldest: int = 1
    format: int = FORMAT


def new_meta(now_ms: int) -> Meta:
    """The facts of a directory that begins now."""
    return Meta(str(uuid.uuid4()), secrets.token_hex(32), now_ms)


def write_meta(disk: Disk, meta: Meta) -> None:
    """Write META durably."""
    replace_file(disk, META_NAME, json.dumps(dataclasses.asdict(meta)).encode())


def read_meta(disk: Disk) -> Meta:
    """Read META; refuse what a newer version wrote."""
    try:
        facts = json.loads(disk.read_all(META_NAME))
        version = facts["format"]
        if version == FORMAT:
            meta = Meta(**facts)
            bytes.fromhex(meta.receipt_key)
            if isinstance(meta.oldest, int) and meta.oldest >= 1:
                return meta
    except (ValueError, TypeError, KeyError):
        raise DamagedJournal(f"{META_NAME} cannot be read: restore it from a backup of this directory") from None
    if isinstance(version, int) and version != FORMAT:
        raise UnknownFormat(
            f"the data has format {version}, this version reads {FORMAT}: use the version that wrote it"
        )
    raise DamagedJournal(f"{META_NAME} holds values that make no sense: restore it from a backup of this directory")
