"""Frames made by hand, whose checksum is right whatever they hold."""

import struct

from hypothesis import strategies as st

from leveret.storage.journal.records import crc32c

SALT = 77
PUBLISH, TIMED, ALSO, DELIVER, SETTLE, RETURN, PURGE, DEFINE, DEDUP = range(1, 10)
RECORD = b"\0\0\0\0" + (3).to_bytes(4, "little") + b"\x01e\x01r" + b"header and body"


def frame(area: bytes, index: bytes, **changed: int) -> bytes:
    """A frame with a right checksum."""
    facts = {"body_len": len(area), "index_len": len(index), "flags": 0, **changed}
    rest = struct.pack("<IIQQIIQ", facts["body_len"], facts["index_len"], 1, 2, SALT, facts["flags"], 0) + area + index
    return b"LFRM" + crc32c(rest).to_bytes(4, "little") + rest


def record_entry(kind: int, offset: int = 0, size: int = len(RECORD), queue: int = 1) -> bytes:
    return struct.pack("<BBHIQIIQ", kind, 0, 1, queue, 5, offset, size, 9)


entries = st.one_of(
    st.binary(min_size=32, max_size=32),
    st.builds(lambda kind, rest: bytes([kind]) + rest, st.integers(0, 12), st.binary(min_size=31, max_size=31)),
    st.builds(record_entry, st.sampled_from([PUBLISH, PURGE, DEFINE]), st.integers(0, 60), st.integers(0, 60)),
)
