"""The headers exchange."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from leveret.core.errors import PreconditionFailed
from leveret.core.exchanges.headers import HeadersExchange
from leveret.core.tables import Long, LongString


@dataclass(frozen=True)
class Queue:
    name: str


def is_match(arguments: dict[str, Any], headers: dict[str, Any] | None) -> bool:
    exchange = HeadersExchange("h", "headers")
    exchange.bind(Queue("q"), "", arguments)
    return list(exchange.matches("ignored", headers)) == [Queue("q")]


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"format": "pdf", "type": "report"}, {"format": "pdf", "type": "report", "more": 1}, True),
        ({"format": "pdf", "type": "report"}, {"format": "pdf"}, False),
        ({"x-match": "all", "format": "pdf"}, {"format": "zip"}, False),
        ({"x-match": "any", "format": "pdf", "type": "log"}, {"type": "log"}, True),
        ({"x-match": "any", "format": "pdf", "type": "log"}, {"type": "pdf"}, False),
        ({}, {}, True),
        ({}, None, True),
        ({"x-match": "all"}, {"a": 1}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-tenant": "a"}, {"x-tenant": "b"}, True),
        ({"x-match": "any", "x-tenant": "a"}, {"x-tenant": "a"}, False),
        ({"x-match": "all-with-x", "x-tenant": "a"}, {"x-tenant": "b"}, False),
        ({"x-match": "all-with-x", "x-tenant": "a"}, {"x-tenant": "a"}, True),
        ({"x-match": "any-with-x", "x-tenant": "a", "b": 1}, {"x-tenant": "a"}, True),
        ({"x-match": "any-with-x", "b": 1}, {"x-match": "any-with-x"}, False),
        ({"present": None}, {"present": "anything"}, True),
        ({"present": None}, {"present": None}, True),
        ({"present": None}, {}, False),
        ({"n": 1}, {"n": True}, False),
        ({"n": 1}, {"n": 1.0}, True),
        ({"n": 1.5}, {"n": 1}, False),
        ({"n": 1}, {"n": Long(1)}, True),
        ({"n": Long(1)}, {"n": 1}, True),
        ({"n": Long(1)}, {"n": True}, False),
        ({"n": "1"}, {"n": b"1"}, True),
        ({"n": b"\xff"}, {"n": LongString(b"\xff")}, True),
        ({"n": "1"}, {"n": 1}, False),
        ({"n": 1_700_000_000}, {"n": datetime.fromtimestamp(1_700_000_000, UTC)}, True),
        ({"n": datetime.fromtimestamp(5, UTC)}, {"n": Long(5)}, True),
        ({"n": datetime.fromtimestamp(5, UTC)}, {"n": "5"}, False),
        ({"n": datetime.fromtimestamp(1, UTC)}, {"n": True}, False),
        ({"n": Decimal("1.5")}, {"n": Decimal("1.50")}, True),
        ({"n": [1, 2]}, {"n": [1, 2]}, True),
    ],
)
def test_match(arguments: dict[str, Any], headers: dict[str, Any] | None, expected: bool) -> None:
    assert is_match(arguments, headers) is expected


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("some", 'field value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (1, "field type signedint (value 1); expected longstr"),
        (None, "field type void (value None); expected longstr"),
        (["all"], "field type array (value ['all']); expected longstr"),
    ],
)
def test_a_bad_x_match_is_refused_and_leaves_nothing_behind(mode: object, text: str) -> None:
    exchange = HeadersExchange("h", "headers")
    with pytest.raises(PreconditionFailed) as refusal:
        exchange.bind(Queue("q"), "", {"x-match": mode})
    assert str(refusal.value) == f"Invalid x-match {text}"
    assert exchange.bindings == {}


def test_an_unbound_rule_no_longer_matches() -> None:
    exchange = HeadersExchange("h", "headers")
    exchange.bind(Queue("q"), "", {"a": 1})
    exchange.bind(Queue("q"), "", {"a": 2})
    exchange.unbind(Queue("q"), "", {"a": 1})
    assert list(exchange.matches("", {"a": 1})) == []
    assert list(exchange.matches("", {"a": 2})) == [Queue("q")]
