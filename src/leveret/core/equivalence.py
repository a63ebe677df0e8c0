"""Whether a redeclaration says the same as what exists; the refusal is worded as clients of RabbitMQ know it."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from leveret.core.errors import PreconditionFailed
from leveret.core.jsonable import canonical
from leveret.core.tables import Long, LongString, Timestamp

_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    Long: "long",
    Timestamp: "timestamp",
    LongString: "longstr",
    float: "double",
    Decimal: "decimal",
    str: "longstr",
    bytes: "binary",
    datetime: "timestamp",
    type(None): "void",
    dict: "table",
    list: "array",
    tuple: "array",
}


def type_name(value: object) -> str:
    """The AMQP name of a value's type, as RabbitMQ says it."""
    if type(value) is int:
        return "signedint" if -(2**31) <= value < 2**31 else "long"
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def check_property(name: str, where: str, received: bool | str, current: bool | str) -> None:
    """Refuse another value of a property such as durable or type."""
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {where}: received '{_text(received)}' but current is '{_text(current)}'"
        )


def check_argument(name: str, where: str, received: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Refuse another value of one argument; integers compare by value, whatever their width on the wire."""
    if (name in received) == (name in current) and canonical(received.get(name)) == canonical(current.get(name)):
        return
    if name in received and name in current:
        check_property(name, where, _text(received[name]), _text(current[name]))
    raise PreconditionFailed(
        f"inequivalent arg '{name}' for {where}: "
        f"received {_described(name, received)} but current is {_described(name, current)}"
    )


def _described(name: str, arguments: Mapping[str, Any]) -> str:
    """One argument with its type, or none."""
    if name not in arguments:
        return "none"
    return f"the value '{_text(arguments[name])}' of type '{type_name(arguments[name])}'"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
