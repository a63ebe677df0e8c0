"""How often a client may ask: a bucket of tokens for each key, refilled at a rate, used by all threads of a server."""

from threading import Lock

from leveret.core.errors import InvalidArgument

KEYS_MAX = 100_000  # buckets in memory: strangers choose the addresses that they come from


class RateLimit:
    """At most `rate_per_s` on average, and `burst` at once."""

    def __init__(self, rate_per_s: float, burst: int, keys_max: int = KEYS_MAX) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise InvalidArgument("a rate limit needs a rate above 0 and a burst of at least 1")
        self._per_ms = rate_per_s / 1000
        self._burst = float(burst)
        self._keys_max = keys_max
        self._buckets: dict[str, tuple[float, int]] = {}
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str, now_ms: int, cost: int = 1) -> int:
        """Take tokens and give 0; when there are too few, take none and give the milliseconds until there are."""
        with self._mutex:
            level, at_ms = self._buckets.pop(key, (self._burst, now_ms))
            # A clock that goes back gives nothing, and a cost over the burst is asked for when the bucket is full.
            level = min(self._burst, level + max(0, now_ms - at_ms) * self._per_ms)
            missing = min(cost, self._burst) - level
            self._buckets[key] = (level if missing > 0 else level - cost, now_ms)
            if len(self._buckets) > self._keys_max:
                # Put in again at each use, the first one is the one that was idle longest: it is the fullest.
                del self._buckets[next(iter(self._buckets))]
        return 0 if missing <= 0 else max(1, round(missing / self._per_ms))

    def learn(self, key: str, level: float, now_ms: int) -> None:
        """Have so many tokens in a bucket, as told by a more exact count; one that is not kept stays full."""
        with self._mutex:
            if key in self._buckets:
                self._buckets[key] = (min(level, self._burst), now_ms)
