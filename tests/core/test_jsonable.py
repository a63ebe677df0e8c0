"""Argument values survive JSON."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core import jsonable
from leveret.core.errors import InvalidArgument
from leveret.core.tables import LongString, Timestamp, decode_table, encode_table
from tests.hostile import FORMS, TEXTS

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(-(10**20), 10**20, allow_nan=False, places=6)
    | st.datetimes(timezones=st.just(UTC))
)
KEYS = st.text(max_size=8) | st.sampled_from(["$bytes", "$dict", "$", "$other"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=30)


@given(VALUES)
def test_a_value_comes_back_from_json_equal_and_of_the_same_type(value: Any) -> None:
    back = jsonable.decode(json.loads(json.dumps(jsonable.encode(value), allow_nan=False)))
    assert back == value
    assert type(back) is type(value)


def test_nan_survives() -> None:
    back = jsonable.decode(json.loads(json.dumps(jsonable.encode({"a": float("nan")}), allow_nan=False)))
    assert back["a"] != back["a"]


def test_canonical_ignores_the_order_of_keys_but_not_types() -> None:
    assert jsonable.canonical({"a": 1, "b": 2}) == jsonable.canonical({"b": 2, "a": 1})
    assert len({jsonable.canonical({"a": value}) for value in (1, True, 1.0, "1", b"1", Decimal(1), None)}) == 7


def test_a_user_key_that_looks_like_a_tag_is_not_read_as_one() -> None:
    assert jsonable.decode(jsonable.encode({"$bytes": "AAAA"})) == {"$bytes": "AAAA"}


def test_nesting_has_a_limit_even_for_a_list_inside_itself() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidArgument, match="deeper than 32"):
        jsonable.encode(endless)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({1: 2}, "keys of arguments are strings"),
        (2**64, "at most 64 bits"),
        (object(), "type object"),
        ({1}, "type set"),
        (Decimal("sNaN"), "not a number with an exponent"),
        (Decimal("-Infinity"), "not a number with an exponent"),
        (Decimal("1E+301"), "not a number with an exponent"),
        (Decimal("1" * 65), "more than 64 characters"),
        (datetime(1, 1, 1), "has no zone"),
    ],
)
def test_what_no_client_could_receive_is_refused(value: object, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        jsonable.encode(value)


def test_arguments_have_a_size_limit() -> None:
    with pytest.raises(InvalidArgument, match="the limit is 131072"):
        jsonable.canonical({"a": "x" * jsonable.CANONICAL_BYTES_MAX})


def test_an_unknown_tag_is_an_error_and_not_a_dict() -> None:
    with pytest.raises(InvalidArgument, match=r"'\$set' is not one of \$bytes, \$time, \$decimal, \$float, \$dict"):
        jsonable.decode({"$set": [1]})
    with pytest.raises(InvalidArgument, match="newer version"):
        jsonable.restored({"$set": [1]})


def test_times_keep_their_zone() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert jsonable.encode(moment) == {"$time": "2026-01-02T03:04:05+00:00"}


# What a table on the wire may hold, beside what JSON has.
WIRE = (
    st.floats()
    | st.binary().map(LongString)
    | st.integers(0, 2**64 - 1).map(Timestamp)
    | st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC))
    | st.builds(lambda digits, scale: Decimal(f"{digits}E-{scale}"), st.integers(0, 2**32 - 1), st.integers(0, 255))
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
WIRE_KEYS = st.binary(max_size=8).map(lambda data: data.decode("utf-8", "surrogateescape"))
TABLES = st.dictionaries(
    WIRE_KEYS,
    st.recursive(WIRE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WIRE_KEYS, inner, max_size=3)),
    max_size=4,
)
# What older versions stored.
POISON = (
    st.sampled_from([Decimal(text) for text in ("sNaN", "-NaN7", "Infinity", "-1E+999999", "1E-999999", "1" * 100)])
    | st.datetimes()
    | st.text(st.characters(codec=None), max_size=8)
)


def as_json(value: Any) -> Any:
    """The value after it was written as JSON that every client reads."""
    return json.loads(json.dumps(value, allow_nan=False).encode())


@given(TABLES)
def test_every_table_of_the_wire_has_a_json_form(table: dict[str, Any]) -> None:
    read, _ = decode_table(encode_table(table))
    as_json(jsonable.plain(read)) and as_json(jsonable.encode(read))
    json.dumps(jsonable.plain(read), ensure_ascii=False).encode()
    assert jsonable.canonical(jsonable.decode(as_json(jsonable.encode(read)))) == jsonable.canonical(read)


def test_the_deepest_table_of_the_wire_has_a_json_form() -> None:
    table: dict[str, Any] = {}
    for _ in range(15):
        table = {"a": [table]}
    read, _ = decode_table(encode_table({"b": table}))
    assert jsonable.decode(as_json(jsonable.encode(read))) == read
    assert as_json(jsonable.plain(read)) == read


@given(st.recursive(WIRE | POISON, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
def test_every_value_that_older_versions_stored_can_be_shown(value: Any) -> None:
    json.dumps(as_json(jsonable.plain(value)), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("stored", "back"),
    [
        ({"$decimal": "sNaN"}, "sNaN"),
        ({"$decimal": "1E+999999"}, "1E+999999"),
        ({"$time": "0001-01-01T00:00:00"}, "0001-01-01T00:00:00"),
        ({"$decimal": "1.50"}, Decimal("1.50")),
    ],
)
def test_what_older_versions_stored_is_restored_as_text_if_it_is_refused_today(stored: Any, back: object) -> None:
    found = jsonable.restored({"a": stored, "b": [stored]})
    assert found == {"a": back, "b": [back]}
    jsonable.canonical(found)


@pytest.mark.parametrize("text", [*TEXTS.values(), *FORMS.values()], ids=[*TEXTS, *FORMS])
def test_hostile_json_is_refused_or_can_be_kept_and_shown(text: str) -> None:
    try:
        value = jsonable.decode(json.loads(text))
        jsonable.canonical(value)
    except (InvalidArgument, RecursionError):
        return
    except ValueError:  # no JSON, for Python
        assert "9" * 5_000 in text
        return
    as_json(jsonable.plain(value))


def test_a_table_is_no_single_value() -> None:
    with pytest.raises(InvalidArgument, match="invalid headers: send an object of names"):
        jsonable.decode_table("headers", {"$bytes": "AAAA"})
