"""De-duplication on publish: which keys a queue has seen within its window."""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b, sha256

from leveret.core.errors import KeyReused

DIGEST_BYTES = 16
ID_BYTES = 12  # of a digest: what a key is found by
KEYS_MAX = 10_000_000  # a window of many days with a key per message must not take all memory

DEDUP_HEADER = "x-deduplication-id"


def digest(key: str | bytes, group: str | None = None) -> bytes:
    """The fixed-size form of a key: what is kept and journaled. 128 bits, so that no two keys meet by chance."""
    hashed = blake2b(key.encode() if isinstance(key, str) else key, digest_size=DIGEST_BYTES)
    if group is not None:
        hashed.update(b"\0" + group.encode())
    return hashed.digest()


def content_id(body: bytes) -> str:
    """The de-duplication id of a message that is known by its body: its SHA-256, as SQS has it."""
    return sha256(body).hexdigest()


def fingerprinted(key: bytes, content: bytes) -> bytes:
    """A key that only a message with the same content may repeat."""
    return key + blake2b(content, digest_size=DIGEST_BYTES - ID_BYTES).digest()


def stored(key: bytes) -> bytes:
    """What is kept and journaled of a key: its id, then the fingerprint of the content, or the rest of its digest."""
    return key[:ID_BYTES] + key[ID_BYTES - DIGEST_BYTES :]


class Dedup:
    """Keys in the order in which they came, each with its end and the message that it belongs to."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, tuple[bytes, int, int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._keys)

    def seen(self, key: bytes, now_ms: int, window_ms: int) -> int | None:
        """The message that brought this key within the window, or None; KeyReused: it had another content."""
        self.forget(now_ms - window_ms)
        row = self._keys.get(key[:ID_BYTES])
        if row is None or row[2] <= now_ms - window_ms:
            return None
        if len(key) > DIGEST_BYTES and row[0] not in (key[ID_BYTES:DIGEST_BYTES], key[DIGEST_BYTES:]):
            raise KeyReused("this Idempotency-Key was used for another message: use a new key for each message")
        return row[1]

    def add(self, key: bytes, seq: int, at_ms: int, segment: int) -> None:
        """Remember a key as the newest; in a replay it may still be here from an earlier time."""
        self._keys.pop(key[:ID_BYTES], None)
        self.replace(key, seq, at_ms, segment)
        if len(self._keys) > KEYS_MAX:
            self._keys.popitem(last=False)

    def replace(self, key: bytes, seq: int, at_ms: int, segment: int) -> None:
        """Note the new place of a key, which keeps its turn."""
        self._keys[key[:ID_BYTES]] = (key[ID_BYTES:], seq, at_ms, segment)

    def forget(self, until_ms: int) -> None:
        """Drop the keys that came at or before a time."""
        while self._keys and next(iter(self._keys.values()))[2] <= until_ms:
            self._keys.popitem(last=False)

    def rows(self) -> Iterator[tuple[bytes, int, int, int]]:
        """Every key with its message, time and segment."""
        return ((name + row[0], *row[1:]) for name, row in self._keys.items())
