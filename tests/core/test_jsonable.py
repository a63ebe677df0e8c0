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

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.none() | st.just(UTC))
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
    ],
)
def test_what_no_client_could_receive_is_refused(value: object, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        jsonable.encode(value)


def test_arguments_have_a_size_limit() -> None:
    with pytest.raises(InvalidArgument, match="the limit is 131072"):
        jsonable.canonical({"a": "x" * jsonable.CANONICAL_BYTES_MAX})


def test_an_unknown_tag_is_an_error_and_not_a_dict() -> None:
    with pytest.raises(InvalidArgument, match="newer version"):
        jsonable.decode({"$set": [1]})


def test_times_keep_their_zone() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert jsonable.encode(moment) == {"$time": "2026-01-02T03:04:05+00:00"}
