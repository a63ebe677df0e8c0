"""How many of the last so many minutes, in three numbers: what is counted in this window and was in the one before."""

from leveret.observability.statistics import gained


class Window:
    """A count that forgets: of the window before, the share counts that still lies within the time."""

    __slots__ = ("_before", "_current", "_start_ms", "_width_ms")

    def __init__(self, width_ms: int, now_ms: int) -> None:
        self._width_ms = width_ms
        self._start_ms = now_ms
        self._before = self._current = 0

    def add(self, count: int, now_ms: int) -> None:
        """So many more happened just now."""
        self._roll(now_ms)
        self._current += count

    def total(self, now_ms: int) -> float:
        """How many it were within the time."""
        self._roll(now_ms)
        left = 1 - (now_ms - self._start_ms) / self._width_ms
        return self._current + self._before * max(0.0, left)

    def _roll(self, now_ms: int) -> None:
        """Begin the window that a time lies in."""
        passed = (now_ms - self._start_ms) // self._width_ms
        if passed >= 1:
            self._before = self._current if passed == 1 else 0
            self._current = 0
            self._start_ms += passed * self._width_ms


class BucketWindow:
    """The same for a histogram, which only grows: what was added to it since the window before began."""

    __slots__ = ("_before", "_start", "_start_ms", "_width_ms")

    def __init__(self, width_ms: int, start: tuple[int, ...], now_ms: int) -> None:
        self._width_ms = width_ms
        self._start_ms = now_ms
        self._before = self._start = start

    def added(self, buckets: tuple[int, ...], now_ms: int) -> tuple[int, ...]:
        """What was added within the time, or up to twice of it."""
        if now_ms - self._start_ms >= self._width_ms:
            self._before, self._start, self._start_ms = self._start, buckets, now_ms
        return gained(buckets, self._before)
