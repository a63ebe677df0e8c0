"""What can be chosen about a journal."""

from dataclasses import dataclass, field
from typing import Literal

from leveret.core.errors import InvalidArgument
from leveret.storage.encryption import MasterKeys

MIB = 1 << 20
SEGMENT_BYTES_MIN = 1 << 10
SEGMENT_BYTES_MAX = 1 << 30
"""Places hold 32-bit offsets, and a commit batch of up to FRAME_BYTES_MAX may begin just below the limit of a
segment.
"""

BLOB_BYTES_MAX = 8 << 20
"""A record, with its header and route, has to stay below 16 MiB."""


@dataclass(frozen=True)
class JournalOptions:
    """Sizes, limits and promises of a journal."""

    sync: Literal["always", "interval", "never"] = "always"
    """`always`: durable before confirm. `interval`, `never`: a power cut may lose what was confirmed."""
    interval_ms: int = 200
    segment_bytes: int = 64 * MIB
    cache_bytes: int = 16 * MIB
    unwritten_bytes_max: int = 64 * MIB
    checkpoint_bytes: int = 256 * MIB
    spare_bytes: int = 64 * MIB
    disk_free_min_bytes: int = 256 * MIB
    blob_bytes: int = 256 << 10
    blob_url: str | None = None
    """Where large bodies go; None: the directory `blobs` beside the log."""
    archive_dir: str | None = None
    keys: MasterKeys = field(default_factory=MasterKeys)

    def __post_init__(self) -> None:
        if self.sync not in ("always", "interval", "never"):
            raise InvalidArgument(f"sync is always, interval or never, not {self.sync!r}")
        if not SEGMENT_BYTES_MIN <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise InvalidArgument(f"segment_bytes is {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}")
        if not 0 < self.blob_bytes <= BLOB_BYTES_MAX:
            raise InvalidArgument(f"blob_bytes is 1 to {BLOB_BYTES_MAX}: larger bodies do not fit into a record")
        for name in ("interval_ms", "cache_bytes", "unwritten_bytes_max", "checkpoint_bytes"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} must be positive")
        for name in ("spare_bytes", "disk_free_min_bytes"):
            if getattr(self, name) < 0:
                raise InvalidArgument(f"{name} cannot be negative")
