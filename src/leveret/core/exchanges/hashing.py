"""Hashes that are the same in every process and on every machine, which Python's own are not."""

from hashlib import blake2b

from leveret.core.jsonable import canonical

HASH_BITS = 64


def stable_hash(data: bytes, seed: bytes = b"") -> int:
    """A well spread 64-bit number."""
    return int.from_bytes(blake2b(data, digest_size=HASH_BITS // 8, key=seed).digest(), "big")


def bytes_of(value: object) -> bytes:
    """What of a routing key, header or property is hashed."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return b"" if value is None else canonical(value).encode("ascii")
