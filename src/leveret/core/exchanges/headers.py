"""The headers exchange: binding arguments are compared with the message's headers.

    x-match       matches when                              keys that start with "x-"
    all           every argument matches (none: always)     not compared
    any           one argument matches (none: never)        not compared
    all-with-x    as all                                    compared
    any-with-x    as any                                    compared

A None argument asks only for presence. Values match when they are equal and of one kind, as in RabbitMQ: numbers and
timestamps (in seconds) are of one kind, and so are strings and byte arrays. True is not 1.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from leveret.core.arguments import type_name
from leveret.core.errors import PreconditionFailed
from leveret.core.exchanges.base import Arguments, Binding, Exchange


class _Mode(NamedTuple):
    """How the arguments of a binding are read."""

    combine: Callable[[Iterable[bool]], bool]
    with_x: bool


_MODES = {
    "all": _Mode(all, False),
    "any": _Mode(any, False),
    "all-with-x": _Mode(all, True),
    "any-with-x": _Mode(any, True),
}


class _Rule(NamedTuple):
    """A binding's arguments, read once."""

    combine: Callable[[Iterable[bool]], bool]
    wanted: tuple[tuple[str, object], ...]


class HeadersExchange(Exchange):
    """Ignores the routing key."""

    cacheable = False

    def __init__(self, *declaration: Any, **named: Any) -> None:
        super().__init__(*declaration, **named)
        self._rules: dict[Binding, _Rule] = {}

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """The destinations whose arguments agree with the headers."""
        present = headers or {}
        return [
            binding.destination
            for binding, rule in self._rules.items()
            if rule.combine(_agrees(present, name, value) for name, value in rule.wanted)
        ]

    def check_binding(self, destination: Any, key: str, arguments: Arguments) -> None:
        """Refuse an x-match that means nothing."""
        mode = arguments.get("x-match", "all")
        if not isinstance(mode, str):
            raise PreconditionFailed(f"Invalid x-match field type {type_name(mode)} (value {mode}); expected longstr")
        if mode not in _MODES:
            raise PreconditionFailed(
                f'Invalid x-match field value <<"{mode}">>; expected all, any, all-with-x, or any-with-x'
            )

    def added(self, binding: Binding) -> None:
        mode = _MODES[binding.arguments.get("x-match", "all")]
        wanted = tuple(
            (name, value)
            for name, value in binding.arguments.items()
            if name != "x-match" and (mode.with_x or not name.startswith("x-"))
        )
        self._rules[binding] = _Rule(mode.combine, wanted)

    def removed(self, binding: Binding) -> None:
        del self._rules[binding]


def _agrees(headers: Arguments, name: str, value: object) -> bool:
    if name not in headers:
        return False
    found = headers[name]
    if value is None or type(found) is type(value):
        return value is None or bool(found == value)
    found, value = _comparable(found), _comparable(value)
    return _kind(found) is _kind(value) and bool(found == value)


def _comparable(value: object) -> object:
    """Strings as their bytes, times as their seconds: RabbitMQ does not compare the types of fields."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return int(value.timestamp()) if isinstance(value, datetime) else value


def _kind(value: object) -> type:
    """Which values can be equal to this one."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
