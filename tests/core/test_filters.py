"""Filters: one condition at a time, all together, and what a filter does not bother to decode."""

from typing import Any

import pytest

from leveret.core.errors import InvalidArgument
from leveret.core.filters import CONTAINS_BYTES_MAX, HEADERS_MAX, MESSAGE_IDS_MAX, Filter
from leveret.core.message import Message, restored
from leveret.core.properties import Properties, content

HEADERS = {"type": "order", "size": 3, "urgent": True, "note": None, "x-group-id": "eu"}


def message(body: bytes = b'{"id": 7}', flags: int = 1, group: int = 99) -> Message:
    whole, header_len = content(Properties(headers=HEADERS, message_id="m-7", content_type="secret"), body)
    return restored(
        b"\x04shop\x09order.new", whole, header_len, priority=5, flags=flags, group=group, seq=7, enqueued_ms=1_000
    )


@pytest.mark.parametrize(
    ("conditions", "accepted"),
    [
        ({}, True),
        ({"headers": {"type": "order"}}, True),
        ({"headers": {"type": "refund"}}, False),
        ({"headers": {"type": None}}, True),
        ({"headers": {"note": None}}, True),
        ({"headers": {"absent": None}}, False),
        ({"headers": {"type": "order", "size": 3}}, True),
        ({"headers": {"type": "order", "size": 4}}, False),
        ({"headers": {"urgent": True}}, True),
        ({"headers": {"urgent": 1}}, False),
        ({"headers": {"note": False}}, False),
        ({"contains": b'"id": 7'}, True),
        ({"contains": "7"}, True),
        ({"contains": "8"}, False),
        ({"contains": "secret"}, False),
        ({"since_ms": 1_000}, True),
        ({"since_ms": 1_001}, False),
        ({"until_ms": 1_001}, True),
        ({"until_ms": 1_000}, False),
        ({"priority_min": 5, "priority_max": 5}, True),
        ({"priority_min": 6}, False),
        ({"priority_max": 4}, False),
        ({"group": "eu"}, True),
        ({"group": "us"}, False),
        ({"message_ids": [7]}, True),
        ({"message_ids": [8]}, False),
        ({"message_ids": ["m-7"]}, True),
        ({"message_ids": ["m-8", 9]}, False),
        ({"message_ids": ["m-8", 7]}, True),
        ({"message_ids": []}, False),
        ({"routing_key": "order.new"}, True),
        ({"routing_key": "order.#"}, False),
        ({"routing_key": "order.new", "headers": {"size": 3}, "contains": "id", "priority_min": 1}, True),
        ({"routing_key": "order.new", "headers": {"size": 3}, "contains": "id", "priority_min": 9}, False),
    ],
)
def test_a_message_must_meet_every_condition(conditions: dict[str, Any], accepted: bool) -> None:
    assert Filter.from_dict(conditions).accepts(message()) is accepted


def test_a_message_without_a_group_is_in_no_group() -> None:
    assert not Filter(group="eu").accepts(message(group=0))


def test_a_body_in_the_blob_store_is_not_searched() -> None:
    assert not Filter(contains="id").accepts(message(flags=3))
    assert Filter(routing_key="order.new").accepts(message(flags=3))


def unreadable() -> Message:
    """A message whose properties cannot be decoded: whoever tries fails."""
    return restored(b"\x00\x01k", b"broken", 3, priority=5, seq=7, group=1)


@pytest.mark.parametrize(
    "conditions", [{}, {"contains": "ken"}, {"priority_min": 1}, {"routing_key": "k"}, {"message_ids": [7]}]
)
def test_properties_are_not_decoded_without_need(conditions: dict[str, Any]) -> None:
    assert Filter.from_dict(conditions).accepts(unreadable())


def test_properties_are_not_decoded_after_a_cheap_refusal() -> None:
    assert not Filter(headers={"type": "order"}, priority_min=6).accepts(unreadable())


@pytest.mark.parametrize(
    ("conditions", "match"),
    [
        ({"colour": "red"}, "unknown condition 'colour'.*contains"),
        ({"needle": b"x"}, "unknown condition"),
        ({"since_ms": "yesterday"}, "since_ms is a whole number"),
        ({"priority_min": True}, "priority_min is a whole number"),
        ({"group": 5}, "group is a string"),
        ({"routing_key": b"k"}, "routing_key is a string"),
        ({"headers": ["type"]}, "headers is an object"),
        ({"headers": {str(number): 1 for number in range(HEADERS_MAX + 1)}}, "at most"),
        ({"contains": 5}, "string or bytes"),
        ({"contains": "x" * (CONTAINS_BYTES_MAX + 1)}, "shorten"),
        ({"message_ids": "m-7"}, "array"),
        ({"message_ids": [None]}, "array"),
        ({"message_ids": list(range(MESSAGE_IDS_MAX + 1))}, "at most"),
    ],
)
def test_a_condition_of_the_wrong_kind_is_refused(conditions: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        Filter.from_dict(conditions)


def test_conditions_at_the_limits_are_taken() -> None:
    Filter(headers={str(number): 1 for number in range(HEADERS_MAX)}, message_ids=list(range(MESSAGE_IDS_MAX)))
    assert not Filter(contains="\ud800" + "x" * (CONTAINS_BYTES_MAX - 3)).accepts(message())
