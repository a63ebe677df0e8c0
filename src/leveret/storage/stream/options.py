"""What can be chosen about a stream."""

from dataclasses import dataclass, field
from typing import Literal

from leveret.core.arguments import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from leveret.core.errors import InvalidArgument
from leveret.storage.encryption import MasterKeys


@dataclass(frozen=True)
class StreamOptions:
    """Sizes and promises of a stream."""

    sync: Literal["always", "interval", "never"] = "always"
    """`always`: durable before confirm. `interval`, `never`: a power cut may lose what was confirmed."""
    interval_ms: int = 200
    segment_bytes: int = 500_000_000
    segment_bytes_min: int = SEGMENT_BYTES_MIN
    """Smaller ones that a stream asks for are made so large."""
    block_bytes: int = 256 << 10
    """Records are packed into blocks of about this size when many come at once."""
    checkpoint_bytes: int = 64 << 20
    """What is written between two checkpoints, and so the most that is read again after a crash."""
    keys: MasterKeys = field(default_factory=MasterKeys)
    """For encryption at rest; none: nothing is encrypted."""
    salvage: bool = False
    """Repair a damaged log when it is opened, instead of refusing it."""

    def __post_init__(self) -> None:
        if self.sync not in ("always", "interval", "never"):
            raise InvalidArgument(f"sync is always, interval or never, not {self.sync!r}")
        if not SEGMENT_BYTES_MIN <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise InvalidArgument(f"segment_bytes is {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}")
        if not 1 <= self.block_bytes <= 16 << 20:
            raise InvalidArgument("block_bytes is 1 to 16 MiB: a reader holds a whole block")
        for name in ("interval_ms", "checkpoint_bytes"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} must be positive")
