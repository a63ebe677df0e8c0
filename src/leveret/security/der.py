"""DER, as far as certificates and revocation lists need it: tags and values that lie side by side."""

from datetime import UTC, datetime

from leveret.core.errors import InvalidArgument

INTEGER, GENERALIZED_TIME, UTC_TIME, SEQUENCE = 0x02, 0x18, 0x17, 0x30
TIMES = frozenset((UTC_TIME, GENERALIZED_TIME))


class BadCertificate(InvalidArgument):
    """A certificate, its key or a revocation list cannot be used, or a key does not fit."""


def parts(data: bytes) -> list[tuple[int, bytes]]:
    """Tags and values; raises ValueError for bytes that are not DER."""
    found, at = [], 0
    while at < len(data):
        tag, start, end = header(data, at)
        found.append((tag, data[start:end]))
        at = end
    return found


def header(data: bytes, at: int) -> tuple[int, int, int]:
    """The tag of the value at a position, and where the value starts and ends."""
    try:
        tag, size, start = data[at], data[at + 1], at + 2
    except IndexError:
        raise ValueError("the data ends within a value") from None
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[at + 2 : start])
    if start + size > len(data):
        raise ValueError("the data ends within a value")
    return tag, start, start + size


def time_ms(tag: int, text: bytes) -> int:
    """A UTCTime or GeneralizedTime in milliseconds since 1970."""
    years = "" if tag == GENERALIZED_TIME else "20" if text[:2] < b"50" else "19"
    parsed = datetime.strptime(years + text.decode("ascii"), "%Y%m%d%H%M%SZ")
    return int(parsed.replace(tzinfo=UTC).timestamp() * 1_000)
