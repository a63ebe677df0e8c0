"""Content headers: all 14 properties there and back, and what the hot path reads without decoding."""

import dataclasses
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import InvalidArgument
from leveret.core.properties import (
    ABSENT,
    INVALID,
    Properties,
    content,
    decode_header,
    encode_header,
    rejoined,
    scan_header,
)
from leveret.core.tables import STORED_FIELDS_MAX, TABLE_FIELDS_MAX, MalformedTable, encode_table

FULL = Properties(
    content_type="application/json",
    content_encoding="utf-8",
    headers={"a": 1},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=1_700_000_000,
    type="t",
    user_id="u",
    app_id="a",
    cluster_id="k",
)
FULL_WIRE = (
    b"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\xff\xfc"
    b"\x10application/json\x05utf-8\x00\x00\x00\x07\x01aI\x00\x00\x00\x01\x02\x09\x01c\x01r\x0560000\x01m"
    b"\x00\x00\x00\x00\x65\x53\xf1\x00\x01t\x01u\x01a\x01k"
)


def header(flags: int, properties: bytes = b"", class_id: int = 60, weight: int = 0) -> bytes:
    return struct.pack(">HHQH", class_id, weight, 0, flags) + properties


def test_a_header_with_every_property_has_the_bytes_of_the_specification() -> None:
    assert encode_header(FULL, 5) == FULL_WIRE
    assert decode_header(FULL_WIRE) == FULL


short = st.none() | st.text(st.characters(codec="utf-8"), max_size=60)
properties = st.builds(
    Properties,
    **{
        field.name: short
        for field in dataclasses.fields(Properties)
        if field.name not in {"headers", "delivery_mode", "priority", "timestamp"}
    },
    headers=st.none() | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=20), st.integers(0, 99)),
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    timestamp=st.none() | st.integers(0, 2**64 - 1),
)


@given(properties, st.binary(max_size=40))
def test_every_header_comes_back_and_scans(original: Properties, body: bytes) -> None:
    wire, header_len = content(original, body)
    assert wire == encode_header(original, len(body)) + body
    assert decode_header(wire[:header_len]) == original
    priority, delivery_mode, _, headers_offset = scan_header(wire, header_len)
    assert (priority, delivery_mode) == (original.priority or 0, original.delivery_mode or 0)
    if original.headers is None:
        assert headers_offset == 0
    else:
        assert wire[headers_offset:].startswith(encode_table(original.headers))


@given(properties, st.binary(max_size=40), st.integers(0, 1 << 40))
def test_a_header_made_for_any_size_can_have_another_body(original: Properties, body: bytes, size: int) -> None:
    assert rejoined(encode_header(original, size), body) == content(original, body)[0]


def test_bytes_that_are_no_header_get_no_body() -> None:
    with pytest.raises(MalformedTable, match="too short"):
        rejoined(b"13 bytes only", b"body")


def test_content_without_properties_is_the_bare_header_and_the_body() -> None:
    assert content(None, b"hello") == (encode_header(Properties(), 5) + b"hello", 14)


def test_names_that_are_not_utf8_keep_their_bytes() -> None:
    wire = header(0x8000, b"\x02\xff\xfe")
    assert encode_header(decode_header(wire), 0) == wire


def test_properties_can_be_replaced_and_pickled() -> None:
    assert dataclasses.replace(FULL, priority=1).priority == 1
    assert dataclasses.replace(FULL, priority=1) != FULL
    assert pickle.loads(pickle.dumps(FULL)) == FULL


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("60000", 60_000),
        ("0000000000007", 7),
        ("4294967296", 2**32),
        ("315360000000", 315_360_000_000),
        ("315360000001", INVALID),
        ("9" * 255, INVALID),
        ("", INVALID),
        ("-1", INVALID),
        ("1.5", INVALID),
        ("12 ", INVALID),
        ("soon", INVALID),
        (None, ABSENT),
    ],
)
def test_the_scan_reads_expiration_as_milliseconds(text: str | None, milliseconds: int) -> None:
    wire = encode_header(Properties(expiration=text), 0)
    assert scan_header(wire, len(wire))[2] == milliseconds


MALFORMED = [
    (b"", 0),
    (FULL_WIRE[:13], 13),
    (header(0, class_id=10), 0),
    (header(0, weight=1), 2),
    (header(1), 12),
    (header(2), 12),
    (header(0x8000), 14),
    (header(0x8000, b"\x05abc"), 15),
    (header(0x2000, b"\x00\x00\x00\x01"), 18),
    (header(0x2000, b"\xff\xff\xff\xff"), 18),
    (header(0x2000, b"\x00\x00\x00\x03\x01kZ"), 21),
    (header(0x0040, b"\x00\x00\x00"), 14),
    (header(0x0100, b"\x03" + b"12"), 15),
    (header(0, b"more"), 14),
]


@pytest.mark.parametrize(("wire", "offset"), MALFORMED)
def test_a_malformed_header_is_refused_with_its_offset(wire: bytes, offset: int) -> None:
    with pytest.raises(MalformedTable) as decoding:
        decode_header(wire)
    with pytest.raises(MalformedTable) as scanning:
        scan_header(wire, len(wire))
    assert (decoding.value.offset, scanning.value.offset) == (offset, offset)


def test_a_header_longer_than_its_content_is_refused() -> None:
    with pytest.raises(MalformedTable, match="announced"):
        scan_header(FULL_WIRE, len(FULL_WIRE) + 1)


def test_publishers_have_a_smaller_limit_than_what_is_stored() -> None:
    wire = encode_header(Properties(headers={"k": [None] * TABLE_FIELDS_MAX}), 0)
    with pytest.raises(MalformedTable, match="too many fields"):
        scan_header(wire, len(wire))
    assert decode_header(wire).headers == {"k": [None] * TABLE_FIELDS_MAX}
    array = STORED_FIELDS_MAX * b"V"
    fields = b"\x01kA" + struct.pack(">I", len(array)) + array
    with pytest.raises(MalformedTable, match="too many fields"):
        decode_header(header(0x2000, struct.pack(">I", len(fields)) + fields))


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"priority": 256}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"timestamp": 2**64}, "timestamp"),
        ({"timestamp": 1.5}, "timestamp"),
        ({"message_id": 5}, "message_id is a string, not int"),
        ({"message_id": "x" * 256}, "message_id has 256 bytes"),
        ({"headers": [1]}, "headers are a dict, not list"),
    ],
)
def test_a_property_of_the_wrong_kind_is_refused_by_name(bad: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        encode_header(Properties(**bad), 0)
