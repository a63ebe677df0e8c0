"""History: segments that compaction has taken out of the log, kept for the pipeline.

    history: below `oldest` of META     |     the log: from `oldest` on
    read by the pipeline only           |     replayed when it is opened

Nothing is copied or renamed: a segment is history once `oldest` is above it, in files as in tables. It goes when
`leveret pipeline archive --remove-segments` has it, or, oldest first, when a limit is reached: when all of it is
older than the age, when history has more bytes than it may, and when the disk has no room.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from leveret.storage.options import JournalOptions

LOOK_MS = 60_000
"""How often the age of history is looked at; nothing is done in between unless a segment comes."""


class KeptSegments(Protocol):
    """The segments of a store that are not in its log any more."""

    @property
    def oldest(self) -> int:
        """The first segment of the log."""

    def kept(self) -> dict[int, int]:
        """The bytes of each segment below that one."""

    def begun_ms(self, segment: int) -> int | None:
        """When the first commit batch of a segment was written; None when it cannot be read."""

    def drop(self, segment: int) -> bool:
        """Remove a segment, if it is not gone already; False when that has to wait."""


@dataclass(frozen=True, slots=True)
class HistoryFigures:
    """What is kept of history, as of the last look."""

    segments: int = 0
    bytes: int = 0
    begins_ms: int | None = None
    """From when on every event is in history or in the log; None: since the store was made."""
    dropped: int = 0
    """Segments that a limit has removed since the store was opened."""


class History:
    """Keeps to the limits; from any thread, one at a time."""

    def __init__(self, segments: KeptSegments, options: JournalOptions, clock: Callable[[], int]) -> None:
        """Keep nothing if one of the limits is 0."""
        self._segments = segments
        self._age_ms, self._bytes_max = options.history_age_ms, options.history_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._look_at_ms = 0
        self.figures = HistoryFigures()

    @property
    def is_on(self) -> bool:
        """Whether anything is kept."""
        return self._age_ms > 0 and self._bytes_max > 0

    def look(self) -> None:
        """Keep to the limits, if the last look was a while ago."""
        if self._clock() >= self._look_at_ms:
            self.trim()

    def trim(self) -> None:
        """Drop the oldest segments until both limits are kept."""
        with self._lock:
            now_ms, dropped = self._clock(), 0
            self._look_at_ms = now_ms + LOOK_MS
            kept = self._segments.kept()
            size = sum(kept.values())
            # Where a segment ends is where the next one begins.
            for segment, following in pairwise((*sorted(kept), self._segments.oldest)):
                if self.is_on and size <= self._bytes_max and not self._is_old(following, now_ms):
                    break
                if not self._segments.drop(segment):
                    break
                size -= kept.pop(segment)
                dropped += self.is_on
            self._tell(kept, dropped)

    def give_up(self, size: int) -> int:
        """Drop the oldest segments, because so many bytes of room are missing; give how many were found."""
        with self._lock:
            kept, found, dropped = self._segments.kept(), 0, 0
            while kept and found < size and self._segments.drop(segment := min(kept)):
                found += kept.pop(segment)
                dropped += 1
            self._tell(kept, dropped)
            return found

    def _is_old(self, segment: int, now_ms: int) -> bool:
        begun_ms = self._segments.begun_ms(segment)
        return begun_ms is not None and begun_ms < now_ms - self._age_ms

    def _tell(self, kept: dict[int, int], dropped: int) -> None:
        first = min(kept, default=self._segments.oldest)
        begins_ms = None if first == 1 else self._segments.begun_ms(first)
        self.figures = HistoryFigures(len(kept), sum(kept.values()), begins_ms, self.figures.dropped + dropped)
