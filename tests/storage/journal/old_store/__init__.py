"""A small store as versions before derived keys wrote it, encrypted by the master key itself.

`store.tar.xz` has 31 messages in queue `orders`, of which 10 are acknowledged and one is large (in `blobs`), one
message that the checkpoint does not have, a stream `events` of 6 records, and one staged piece. Its process was killed.
"""

import tarfile
from pathlib import Path
from typing import Any

KEY = bytes(range(32))
STAGED = b"staged in the old format"
OPTIONS: dict[str, Any] = {
    "sync": "never",
    "spare_bytes": 0,
    "disk_free_min_bytes": 0,
    "segment_bytes": 4096,
    "blob_bytes": 1000,
    "on_failure": "raise",
}
"""Those that it was written with, but for its keys."""
ORDERS = [
    *(f"order {number} " + "x" * 200 for number in range(10, 30)),
    "large " + "y" * 2000,
    "after the checkpoint",
]
EVENTS = [f"event {number}" for number in range(6)]


def unpacked(path: Path) -> Path:
    """The store, in a directory."""
    with tarfile.open(Path(__file__).with_name("store.tar.xz")) as archive:
        archive.extractall(path, filter="data")
    return path


def key_file(path: Path, *keys: bytes) -> str:
    """A file with keys."""
    path.write_text("\n".join(key.hex() for key in keys))
    return str(path)
