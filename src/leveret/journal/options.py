"""What can be chosen about a journal."""

from dataclasses import dataclass, field
from typing import Literal

from leveret.core.errors import InvalidArgument
from leveret.journal.encryption import Keys

MIB = 1 << 20
SEGMENT_BYTES_MIN = 1 << 10
SEGMENT_BYTES_MAX = 1 << 30
"""Places hold 32-bit offsets, and a frame of up to FRAME_BYTES_MAX may begin just below the limit of a segment."""


@dataclass(frozen=True)
class JournalOptions:
    """Sizes, limits and promises of a journal."""

    sync: Literal["always", "interval", "never"] = "always"
    """`always`: durable before confirm. `interval`, `never`: a power cut may lose what was confirmed."""
    interval_ms: int = 200
    segment_bytes: int = 64 * MIB
    cache_bytes: int = 256 * MIB
    unwritten_bytes_max: int = 64 * MIB
    checkpoint_bytes: int = 256 * MIB
    spare_bytes: int = 64 * MIB
    disk_free_min_bytes: int = 256 * MIB
    archive_dir: str | None = None
    keys: Keys = field(default_factory=Keys)

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.sync not in ("always", "interval", "never"):
            raise InvalidArgument(f"sync is always, interval or never, not {self.sync!r}")
        if not SEGMENT_BYTES_MIN <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise InvalidArgument(f"segment_bytes is {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}")
        for name in ("interval_ms", "cache_bytes", "unwritten_bytes_max", "checkpoint_bytes"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} must be positive")
        for name in ("spare_bytes", "disk_free_min_bytes"):
            if getattr(self, name) < 0:
                raise InvalidArgument(f"{name} cannot be negative")
