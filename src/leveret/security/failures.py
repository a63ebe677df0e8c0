"""Wrong passwords, counted: how long the answer to the next wrong one is held back.

The first ones are answered at once: a client that tries several passwords is no attacker. Right ones are never held
back, so that no client can lock another user out. Logins are decided by many threads.
"""

from threading import Lock

FREE_MAX = 3  # failures that are answered at once
DELAYS_MS = (1_000, 2_000, 3_000)  # of the first one after those, the second, every further one
FORGOTTEN_MS = 300_000
COUNTED_MAX = 10_000


class Failures:
    """Failures by whatever they are counted by: user names, addresses."""

    def __init__(self, entries_max: int = COUNTED_MAX) -> None:
        self._entries_max = entries_max
        self._counts: dict[str, tuple[int, int]] = {}
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, key: str, now_ms: int) -> int:
        """Count one failure and say for how many milliseconds to hold the answer back."""
        late = self.add(key, now_ms) - FREE_MAX
        return 0 if late <= 0 else DELAYS_MS[min(late, len(DELAYS_MS)) - 1]

    def exceeded(self, key: str, now_ms: int) -> bool:
        """Whether the next failure would be held back, by what is known here; counts nothing."""
        count, at_ms = self._counts.get(key, (0, now_ms))
        return count >= FREE_MAX and now_ms - at_ms < FORGOTTEN_MS

    def add(self, key: str, now_ms: int) -> int:
        """Count one failure and say how many there were until now."""
        with self._mutex:
            earlier, at_ms = self._counts.pop(key, (0, now_ms))
            if now_ms - at_ms >= FORGOTTEN_MS:
                earlier = 0
            # Taken out and put in again, so that the first one is always the one that failed longest ago.
            self._counts[key] = (earlier + 1, now_ms)
            if len(self._counts) > self._entries_max:
                del self._counts[next(iter(self._counts))]
        return earlier + 1

    def learn(self, key: str, count: int, now_ms: int) -> None:
        """Other nodes have counted more failures of a key that is counted here."""
        with self._mutex:
            if key in self._counts:
                self._counts[key] = (count, now_ms)

    def forget(self, key: str) -> None:
        """Start anew, after a success."""
        with self._mutex:
            self._counts.pop(key, None)
