"""What can be chosen about a journal and about streams."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Literal

from leveret.config import Options
from leveret.core.arguments import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from leveret.core.errors import InvalidArgument
from leveret.storage.encryption import MasterKeys

SCHEMES = ("postgresql://", "postgres://")
PASSWORD = re.compile(r"(?<=[?&]password=)[^&]*|(?<=[?&]sslpassword=)[^&]*")
USER_PASSWORD = re.compile(r"^(\w+://[^/?:@]*):[^/]*@")


def is_url(place: str) -> bool:
    """Whether a place is the URL of a database."""
    return place.startswith(SCHEMES)


def shown(place: str) -> str:
    """A place as it may be logged: without a password."""
    return PASSWORD.sub("", USER_PASSWORD.sub(r"\1@", place)) if is_url(place) else place


MIB = 1 << 20
JOURNAL_SEGMENT_BYTES_MAX = 1 << 30
"""Places hold 32-bit offsets, and a commit batch of up to FRAME_BYTES_MAX may begin just below the limit of a
segment.
"""
BLOB_BYTES_MAX = 8 << 20
"""A record, with its header and route, has to stay below 16 MiB."""


@dataclass(frozen=True)
class LogOptions:
    """Sizes and promises of any log."""

    sync: Literal["always", "interval", "never"] = "always"
    """`always`: durable before confirm. `interval`, `never`: a power cut may lose what was confirmed."""
    interval_ms: int = 200
    segment_bytes: int = 64 * MIB
    checkpoint_bytes: int = 256 * MIB
    """What is written between two checkpoints, and so the most that is read again after a crash."""
    keys: MasterKeys = field(default_factory=MasterKeys)
    """For encryption at rest; none: nothing is encrypted."""

    def check(self, segment_bytes_max: int) -> None:
        """Refuse what no log can keep."""
        if self.sync not in ("always", "interval", "never"):
            raise InvalidArgument(f"sync is always, interval or never, not {self.sync!r}")
        if not SEGMENT_BYTES_MIN <= self.segment_bytes <= segment_bytes_max:
            raise InvalidArgument(f"segment_bytes is {SEGMENT_BYTES_MIN} to {segment_bytes_max}")
        self.check_positive("interval_ms", "checkpoint_bytes")

    def check_positive(self, *names: str) -> None:
        """Refuse sizes and times that are nothing."""
        for name in names:
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} must be positive")


@dataclass(frozen=True)
class JournalOptions(LogOptions):
    """Sizes, limits and promises of a journal."""

    cache_bytes: int = 16 * MIB
    unwritten_bytes_max: int = 64 * MIB
    spare_bytes: int = 64 * MIB
    disk_free_min_bytes: int = 256 * MIB
    blob_bytes: int = 256 << 10
    blob_url: str | None = None
    """Where large bodies go; None: the directory `blobs` beside the log."""
    archive_dir: str | None = None
    history_age_ms: int = 0
    history_bytes: int = 0
    """Limits of segments that are kept when they leave the log; with one of them 0 none is."""
    history_events: Literal["durable", "all"] = "durable"
    """`all`: what happens to transient messages is noted, too, if segments are kept at all."""

    @property
    def keeps_all_events(self) -> bool:
        """Whether the log also has what only history needs."""
        kept = self.archive_dir is not None or (self.history_age_ms > 0 and self.history_bytes > 0)
        return kept and self.history_events == "all"

    def __post_init__(self) -> None:
        self.check(JOURNAL_SEGMENT_BYTES_MAX)
        if self.history_events not in ("durable", "all"):
            raise InvalidArgument(f"history_events is durable or all, not {self.history_events!r}")
        if not 0 < self.blob_bytes <= BLOB_BYTES_MAX:
            raise InvalidArgument(f"blob_bytes is 1 to {BLOB_BYTES_MAX}: larger bodies do not fit into a record")
        self.check_positive("cache_bytes", "unwritten_bytes_max")
        for name in ("spare_bytes", "disk_free_min_bytes", "history_age_ms", "history_bytes"):
            if getattr(self, name) < 0:
                raise InvalidArgument(f"{name} cannot be negative")


@dataclass(frozen=True)
class StreamOptions(LogOptions):
    """Sizes and promises of a stream."""

    segment_bytes: int = 500_000_000
    segment_bytes_min: int = SEGMENT_BYTES_MIN
    """Smaller ones that a stream asks for are made so large."""
    block_bytes: int = 256 << 10
    """Records are packed into blocks of about this size when many come at once."""
    checkpoint_bytes: int = 64 * MIB
    salvage: bool = False
    """Repair a damaged log when it is opened, instead of refusing it."""

    def __post_init__(self) -> None:
        self.check(SEGMENT_BYTES_MAX)
        if not 1 <= self.block_bytes <= 16 * MIB:
            raise InvalidArgument("block_bytes is 1 to 16 MiB: a reader holds a whole block")


POSITIVE = ("blob_bytes", "message_bytes_max", "tracing_spans_max")


def unknown_name(what: str, name: str, known: list[str]) -> InvalidArgument:
    """The refusal of a name that does not exist, with the one that was probably meant."""
    near = get_close_matches(name, known, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
    return InvalidArgument(f"unknown {what} {name!r}: {advice}")


def options_of(given: Mapping[str, Any]) -> Options:
    """Options from keywords, checked; the journal checks what is only its own."""
    known = [each.name for each in fields(Options)]
    for name in given:
        if name not in known:
            raise unknown_name("option", name, known)
    options = Options(**given)
    if options.on_failure not in ("exit", "raise"):
        raise InvalidArgument(f"on_failure is exit or raise, not {options.on_failure!r}")
    for name in POSITIVE:
        if getattr(options, name) < 1:
            raise InvalidArgument(f"{name} must be positive")
    if not 0 <= options.tracing_ratio <= 1:
        raise InvalidArgument(f"tracing_ratio is 0 to 1, not {options.tracing_ratio!r}")
    return options
