"""Field tables: every type, every limit, and bytes that nobody should have sent."""

import struct
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import InvalidArgument
from leveret.core.tables import (
    KEY_BYTES_MAX,
    STORED_BYTES_MAX,
    STORED_FIELDS_MAX,
    TABLE_BYTES_MAX,
    TABLE_DEPTH_MAX,
    TABLE_FIELDS_MAX,
    Long,
    LongString,
    MalformedTable,
    Timestamp,
    decode_table,
    encode_table,
)


def table(fields: bytes) -> bytes:
    return struct.pack(">I", len(fields)) + fields


def field(kind: bytes, value: bytes = b"", key: bytes = b"k") -> bytes:
    return bytes([len(key)]) + key + kind + value


def prefixed(kind: bytes, value: bytes) -> bytes:
    return kind + struct.pack(">I", len(value)) + value


WIRE_VALUES: list[tuple[bytes, bytes, Any]] = [
    (b"t", b"\x00", False),
    (b"t", b"\x02", True),
    (b"b", b"\xff", -1),
    (b"B", b"\xff", 255),
    (b"s", b"\xff\xfe", -2),
    (b"u", b"\xff\xfe", 65534),
    (b"I", b"\x80\x00\x00\x00", -(2**31)),
    (b"i", b"\xff\xff\xff\xff", 2**32 - 1),
    (b"l", b"\xff" * 8, -1),
    (b"L", b"\x80" + 7 * b"\x00", -(2**63)),
    (b"f", struct.pack(">f", 1.5), 1.5),
    (b"d", struct.pack(">d", 0.1), 0.1),
    (b"D", b"\x02\x00\x00\x01\x3a", Decimal("3.14")),
    (b"D", b"\xff\xff\xff\xff\xff", Decimal(2**32 - 1).scaleb(-255)),
    (b"S", b"\x00\x00\x00\x03h\xc3\xa9", "hé"),
    (b"S", b"\x00\x00\x00\x00", ""),
    (b"x", b"\x00\x00\x00\x02\x00\xff", b"\x00\xff"),
    (b"T", b"\x00\x00\x00\x00\x65\x00\x00\x00", datetime(2023, 9, 12, 6, 6, 56, tzinfo=UTC)),
    (b"V", b"", None),
    (b"A", b"\x00\x00\x00\x03Vt\x01", [None, True]),
    (b"F", b"\x00\x00\x00\x03\x01aV", {"a": None}),
]


@pytest.mark.parametrize(("kind", "wire", "value"), WIRE_VALUES)
def test_each_wire_type_becomes_its_python_value(kind: bytes, wire: bytes, value: Any) -> None:
    decoded, _ = decode_table(table(field(kind, wire)))
    assert decoded == {"k": value}
    assert isinstance(decoded["k"], type(value))


PYTHON_VALUES: list[tuple[Any, bytes]] = [
    (True, b"t\x01"),
    (2**31 - 1, b"I\x7f\xff\xff\xff"),
    (2**31, b"l\x00\x00\x00\x00\x80\x00\x00\x00"),
    (-(2**31) - 1, b"l\xff\xff\xff\xff\x7f\xff\xff\xff"),
    (Long(7), b"l" + 7 * b"\x00" + b"\x07"),
    (0.1, b"d" + struct.pack(">d", 0.1)),
    (Decimal("3.14"), b"D\x02\x00\x00\x01\x3a"),
    (Decimal("1E+2"), b"D\x00\x00\x00\x00\x64"),
    ("hé", prefixed(b"S", b"h\xc3\xa9")),
    ("\udcff", prefixed(b"S", b"\xff")),
    (b"\xff", prefixed(b"x", b"\xff")),
    (bytearray(b"ab"), prefixed(b"x", b"ab")),
    (LongString(b"\xff"), prefixed(b"S", b"\xff")),
    (datetime(1970, 1, 1, 2, 0, 5, 999_999, timezone(timedelta(hours=2))), b"T" + 7 * b"\x00" + b"\x05"),
    (Timestamp(2**64 - 1), b"T" + 8 * b"\xff"),
    (None, b"V"),
    ((1, None), prefixed(b"A", b"I\x00\x00\x00\x01V")),
    ({"a": {}}, prefixed(b"F", b"\x01a" + prefixed(b"F", b""))),
]


@pytest.mark.parametrize(("value", "wire"), PYTHON_VALUES)
def test_each_python_value_becomes_its_wire_type(value: Any, wire: bytes) -> None:
    assert encode_table({"k": value}) == table(field(wire))


def test_a_table_in_the_middle_of_a_buffer_is_read_from_its_offset() -> None:
    first, second = encode_table({"a": 1}), encode_table({"b": "two"})
    assert decode_table(first + second + b"rest", len(first)) == ({"b": "two"}, len(first) + len(second))


def test_the_first_of_two_fields_with_one_key_counts() -> None:
    assert decode_table(table(field(b"t", b"\x01") + field(b"V")))[0] == {"k": True}


UNUSUAL = [
    table(field(b"l", struct.pack(">q", 5))),
    table(field(b"T", struct.pack(">Q", 1_700_000_000_000))),
    table(field(b"T", struct.pack(">Q", 2**64 - 1))),
    table(field(prefixed(b"S", b"\xff\xfe"))),
    table(field(b"V", key=b"\xff")),
    table(field(b"D", b"\x00\xff\xff\xff\xff")),
]


@pytest.mark.parametrize("wire", UNUSUAL)
def test_what_python_cannot_say_plainly_still_comes_back_as_it_was(wire: bytes) -> None:
    assert encode_table(decode_table(wire)[0]) == wire


def nested(depth: int) -> dict[str, Any]:
    value: Any = None
    for level in range(depth):
        value = [value] if level % 2 == 0 and level < depth - 1 else {"k": value}
    return {"k": value} if not isinstance(value, dict) else value


def deep_wire(depth: int) -> bytes:
    value = b"V"
    for _ in range(depth - 1):
        value = prefixed(b"A", value)
    return table(field(value))


def test_tables_and_arrays_nest_to_the_limit_and_no_deeper() -> None:
    assert encode_table(decode_table(deep_wire(TABLE_DEPTH_MAX))[0]) == deep_wire(TABLE_DEPTH_MAX)
    with pytest.raises(MalformedTable, match="nested"):
        decode_table(deep_wire(TABLE_DEPTH_MAX + 1))
    with pytest.raises(MalformedTable, match="nested"):
        decode_table(deep_wire(20_000))
    with pytest.raises(InvalidArgument, match="nested"):
        encode_table(nested(TABLE_DEPTH_MAX + 1))


def test_a_table_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["k"] = endless
    with pytest.raises(InvalidArgument, match="nested"):
        encode_table(endless)


def test_fields_and_elements_count_together() -> None:
    elements = TABLE_FIELDS_MAX - 1
    assert len(decode_table(table(field(prefixed(b"A", elements * b"V"))))[0]["k"]) == elements
    with pytest.raises(MalformedTable, match="too many fields"):
        decode_table(table(field(prefixed(b"A", (elements + 1) * b"V"))))
    with pytest.raises(InvalidArgument, match="fields"):
        encode_table({"k": [None] * STORED_FIELDS_MAX})


def test_a_table_over_the_size_limit_is_refused() -> None:
    size = TABLE_BYTES_MAX - 7
    assert len(decode_table(table(field(prefixed(b"x", size * b"a"))))[0]["k"]) == size
    with pytest.raises(MalformedTable, match="limit"):
        decode_table(table(field(prefixed(b"x", (size + 1) * b"a"))))
    size = STORED_BYTES_MAX - 7
    assert len(encode_table({"k": size * b"a"})) == STORED_BYTES_MAX + 4
    with pytest.raises(InvalidArgument, match="at most"):
        encode_table({"k": (size + 1) * b"a"})


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"é" * (KEY_BYTES_MAX // 2 + 1): 1}, "shorten"),
        ({1: 1}, "name is a string"),
        ({"k": 2**63}, "64 bits"),
        ({"k": 10**5000}, "64 bits"),
        ({"k": Timestamp(2**64)}, "64 bits"),
        ({"k": Decimal("-1")}, "no sign"),
        ({"k": Decimal("NaN")}, "no sign"),
        ({"k": Decimal("1E+999999")}, "no sign"),
        ({"k": Decimal(2**32)}, "32 bits"),
        ({"k": datetime(2026, 1, 1)}, "time zone"),
        ({"k": datetime(1969, 12, 31, tzinfo=UTC)}, "1970"),
        ({"k": "\ud800"}, "UTF-8"),
        ({"k": object()}, "no type for object"),
    ],
)
def test_what_has_no_place_in_a_table_is_refused(bad: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        encode_table(bad)


@pytest.mark.parametrize(
    ("wire", "offset"),
    [
        (b"", 0),
        (b"\x00\x00\x00", 0),
        (b"\x00\x00\x00\x01", 4),
        (b"\xff\xff\xff\xff", 4),
        (table(b"\x05ab"), 5),
        (table(b"\x01k"), 6),
        (table(b"\x01kI\x00\x00\x00"), 7),
        (table(b"\x01kS\xff\xff\xff\xff"), 11),
        (table(b"\x01kx\x80\x00\x00\x00ab"), 11),
        (table(b"\x01kF\x00\x00\x00\x05ab"), 11),
        (table(b"\x01kA\x00\x00\x00\x01S"), 12),
        (table(b"\x01kZ"), 7),
        (table(b"\x01kA\x00\x00\x00\x02IIV"), 12),
    ],
)
def test_a_malformed_table_is_refused_with_its_offset(wire: bytes, offset: int) -> None:
    with pytest.raises(MalformedTable) as refusal:
        decode_table(wire)
    assert refusal.value.offset == offset
    assert str(offset) in str(refusal.value)


@pytest.mark.parametrize("offset", [-1, 5, 2**70])
def test_an_offset_outside_of_the_data_is_refused(offset: int) -> None:
    with pytest.raises(MalformedTable, match="no table"):
        decode_table(b"\x00\x00\x00\x00", offset)


texts = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=20)
    | st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC)).map(lambda time: time.replace(microsecond=0))
    | st.decimals(0, 42949672, places=2)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
tables = st.dictionaries(texts, values, max_size=6)


@given(tables)
def test_every_table_comes_back(original: dict[str, Any]) -> None:
    wire = encode_table(original)
    assert decode_table(wire) == (original, len(wire))
    assert encode_table(decode_table(wire)[0]) == wire
