"""Wrong passwords and tokens that all nodes count together: who goes from node to node is held back by each of them."""

from leveret.runtime.shared.keys import LOGIN, hashed
from leveret.runtime.shared.redis import Redis
from leveret.security.logins import FORGOTTEN_MS, Failures

COUNT = """
local count = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return count
"""
FORGET = "return redis.call('DEL', KEYS[1])"


class SharedFailures(Failures):
    """Failures of one kind (by name, by address), counted here and by Redis; for threads that are not the loop's."""

    def __init__(self, kind: str, redis: Redis) -> None:
        super().__init__()
        self._kind = kind
        self._redis = redis

    def add(self, key: str, now_ms: int) -> int:
        """See Failures; the larger of both counts, so that no attacker gains by an outage."""
        here = super().add(key, now_ms)
        everywhere = self._redis.run_in_thread("login", COUNT, self._key(key), FORGOTTEN_MS) or 0
        if everywhere > here:
            self.learn(key, everywhere, now_ms)
        return max(here, everywhere)

    def forget(self, key: str) -> None:
        """See Failures; a right password is not held back."""
        super().forget(key)
        self._redis.run_soon("login", FORGET, self._key(key))

    def _key(self, key: str) -> str:
        return LOGIN + hashed(self._kind.encode(), key.encode())
