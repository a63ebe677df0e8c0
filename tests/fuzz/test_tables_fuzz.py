"""The codec under random and mutated bytes: it answers or raises MalformedTable, and nothing else."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.properties import Properties, content, decode_header, encode_header, scan_header
from leveret.core.tables import MalformedTable, decode_table, encode_table

SAMPLE: dict[str, Any] = {
    "text": "hé",
    "number": 2**40,
    "small": 1,
    "raw": b"\x00\xff",
    "nothing": None,
    "yes": True,
    "ratio": 0.5,
    "nested": {"list": [1, {"deep": ["x", [None]]}]},
}
TABLE = encode_table(SAMPLE)
HEADER = encode_header(
    Properties(content_type="a/b", headers=SAMPLE, delivery_mode=2, priority=5, expiration="60000", message_id="m"), 9
)
edits = st.lists(st.tuples(st.integers(0, 2**16), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, *b"AFSxlTD"])), max_size=6)


def mutated(wire: bytes, edits: list[tuple[int, int]], cut: int) -> bytes:
    damaged = bytearray(wire)
    for position, value in edits:
        damaged[position % len(damaged)] = value
    return bytes(damaged[: len(damaged) - cut % len(damaged)])


def check_table(wire: bytes) -> None:
    """What decodes can be encoded again, and reads the same from then on."""
    try:
        table, end = decode_table(wire)
    except MalformedTable:
        return
    assert end <= len(wire)
    again = encode_table(table)
    assert encode_table(decode_table(again)[0]) == again


def check_header(wire: bytes) -> None:
    """Whatever the scan lets pass can be decoded, and encoded for a dead letter."""
    try:
        scan_header(wire, len(wire))
    except MalformedTable:
        return
    properties = decode_header(wire)
    again, header_len = content(properties, b"")
    assert encode_header(decode_header(again[:header_len]), 0) == again


@given(st.binary(max_size=300))
def test_random_bytes_as_a_table(data: bytes) -> None:
    check_table(data)
    check_table(len(data).to_bytes(4, "big") + data)


@given(edits, st.integers(0, 2**16))
def test_a_damaged_table(edits: list[tuple[int, int]], cut: int) -> None:
    check_table(mutated(TABLE, edits, cut))


@given(st.integers(0, 0xFFFF), st.binary(max_size=300))
def test_random_bytes_as_a_header(flags: int, data: bytes) -> None:
    check_header(data)
    check_header(HEADER[:12] + flags.to_bytes(2, "big") + data)


@given(edits, st.sampled_from([0, 0, 0, 1, 5, 40]))
def test_a_damaged_header(edits: list[tuple[int, int]], cut: int) -> None:
    check_header(mutated(HEADER, edits, cut))
