"""What one process remembers for a while: bounded, the oldest goes first; for all threads."""

from threading import Lock

from leveret.clock import Clock


class ExpiringMemory:
    """Values by their keys."""

    def __init__(self, clock: Clock, entries_max: int, bytes_max: int) -> None:
        self._clock = clock
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries: dict[str, tuple[bytes, int]] = {}
        self._bytes = 0
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def claim(self, key: str, mark: bytes, kept_ms: int) -> bytes | None:
        """What is known of a key; if that is nothing, or the mark itself, the mark is from now on."""
        with self._mutex:
            value, until_ms = self._entries.get(key, (None, 0))
            if value is not None and value != mark and until_ms > self._clock.now_ms():
                return value
            self._put(key, mark, kept_ms)
            return None

    def put(self, key: str, value: bytes, kept_ms: int) -> None:
        """Remember something, and forget what there is no room for."""
        with self._mutex:
            self._put(key, value, kept_ms)

    def drop(self, key: str, mark: bytes) -> None:
        """Forget a key that was claimed by a mark, unless it is another's by now."""
        with self._mutex:
            if self._entries.get(key, (None, 0))[0] == mark:
                self._drop(key)

    def _put(self, key: str, value: bytes, kept_ms: int) -> None:
        self._drop(key)
        self._entries[key] = (value, self._clock.now_ms() + kept_ms)
        self._bytes += len(value)
        while len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        value, _ = self._entries.pop(key, (b"", 0))
        self._bytes -= len(value)
