"""Passwords that were right a moment ago: clients that reconnect all the time do not pay for scrypt each time.

Neither the password nor its hash is kept, but a hash of both under a key that this process made up. A new password
makes a new stored string, so that the old one is never found again. Logins are decided by many threads.
"""

import hashlib
import secrets
from threading import Lock

VERIFIED_MS = 60_000
VERIFIED_MAX = 1_000


class Verified:
    """What was verified, for a minute."""

    def __init__(self, entries_max: int = VERIFIED_MAX) -> None:
        self._key = secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)
        self._entries_max = entries_max
        self._verified_at_ms: dict[bytes, int] = {}
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._verified_at_ms)

    def knows(self, stored: str, password: bytes, now_ms: int) -> bool:
        """Whether this very pair was verified within the last minute; a clock that went back ends it."""
        digest = self._digest(stored, password)
        with self._mutex:
            at_ms = self._verified_at_ms.get(digest)
            if at_ms is None:
                return False
            fresh = 0 <= now_ms - at_ms < VERIFIED_MS
            if not fresh:
                del self._verified_at_ms[digest]
            return fresh

    def remember(self, stored: str, password: bytes, now_ms: int) -> None:
        """Note that the pair was verified; the oldest one makes room."""
        digest = self._digest(stored, password)
        with self._mutex:
            self._verified_at_ms[digest] = now_ms
            if len(self._verified_at_ms) > self._entries_max:
                del self._verified_at_ms[next(iter(self._verified_at_ms))]

    def _digest(self, stored: str, password: bytes) -> bytes:
        """What stands for the pair; a stored string has no zero byte."""
        return hashlib.blake2b(stored.encode() + b"\0" + password, key=self._key, digest_size=32).digest()
