"""Fields of a JSON object from outside: there, and of the right type, or refused by name."""

from collections.abc import Mapping
from typing import Any, TypeVar

from leveret.core.errors import InvalidArgument
from leveret.core.jsonable import decode_table

T = TypeVar("T")
Row = Mapping[str, Any]


def field(row: Row, name: str, kind: type[T], default: T | None = None) -> T:
    """The value of a field; without a default it must be there."""
    value = row.get(name, default)
    if value is None:
        raise InvalidArgument(f"it has no {name}")
    if not isinstance(value, kind):
        raise InvalidArgument(f"its {name} is of the type {type(value).__name__}, not {kind.__name__}")
    return value


def arguments(row: Row) -> dict[str, Any]:
    """The arguments of a queue, an exchange or a binding."""
    return decode_table("arguments", field(row, "arguments", dict, {}))
