"""Argument values as JSON and back: what JSON lacks is tagged, so that definitions survive the journal unchanged.

bytes     {"$bytes": "base64"}            datetime  {"$time": "2026-01-02T03:04:05+00:00"}
Decimal   {"$decimal": "1.50"}            nan, inf  {"$float": "nan"}
a dict with a key that starts with "$"    {"$dict": {...}}

`decode` is for JSON from outside and refuses a value that could not be shown to another client; `restored` is for what
the journal holds and never refuses a value. `plain` is for people and tools: without tags, and without a way back; it
has a form for every value.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from leveret.core.errors import InvalidArgument

DEPTH_MAX = 32  # without it a nested document exhausts the interpreter's stack
INTEGER_BITS_MAX = 64  # what AMQP can carry; larger ones could not be delivered to any client
CANONICAL_BYTES_MAX = 128 * 1024  # arguments are kept for ever: without it each binding could pin megabytes
SCALAR_CHARS_MAX = 64  # of a time, decimal or float as text: without it reading a long decimal takes seconds
DECIMAL_EXPONENT_MAX = 300  # a larger decimal is no number in the JSON of other languages

TOO_DEEP = f"arguments are nested deeper than {DEPTH_MAX} levels: flatten them"


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _time(text: str) -> datetime:
    return _checked_time(datetime.fromisoformat(_short(text)))


def _decimal(text: str) -> Decimal:
    return _checked_decimal(Decimal(_short(text)))


def _float(text: str) -> float:
    return float(_short(text))


def _short(text: str) -> str:
    if len(text) > SCALAR_CHARS_MAX:
        raise ValueError("too long")
    return text


def _checked_time(value: datetime) -> datetime:
    """Refuse a time whose moment depends on the zone of this machine."""
    if value.tzinfo is None:
        raise InvalidArgument(f"the time {value.isoformat()} has no zone: give one, such as +00:00")
    return value


def _checked_decimal(value: Decimal) -> Decimal:
    """Refuse what is no number, or none that a double can hold."""
    if not value.is_finite() or abs(value.adjusted()) > DECIMAL_EXPONENT_MAX:
        limit = f"a number with an exponent of at most {DECIMAL_EXPONENT_MAX}"
        raise InvalidArgument(f"the decimal {value} is not {limit}: send it as a string")
    if len(str(value)) > SCALAR_CHARS_MAX:
        raise InvalidArgument(f"a decimal has more than {SCALAR_CHARS_MAX} characters: send it as a string")
    return value


_TAGGED: tuple[tuple[type, str, Callable[[Any], str]], ...] = (
    (bytes, "$bytes", lambda value: b64encode(value).decode("ascii")),
    (datetime, "$time", lambda value: _checked_time(value).isoformat()),
    (Decimal, "$decimal", lambda value: str(_checked_decimal(value))),
)
_UNTAGGED: dict[str, tuple[Callable[[str], object], str]] = {
    "$bytes": (_bytes, 'base64, such as "AAEC"'),
    "$time": (_time, 'a time with a zone, such as "2026-01-02T03:04:05+00:00"'),
    "$decimal": (_decimal, 'a decimal number, such as "1.50"'),
    "$float": (_float, 'a float, such as "nan" or "inf"'),
}


def encode(value: object, depth: int = 0) -> Any:
    """The same value in JSON's types only."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return _encode_integer(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if depth >= DEPTH_MAX:
        raise InvalidArgument(TOO_DEEP)
    if isinstance(value, Mapping):
        return _encode_mapping(value, depth)
    if isinstance(value, (list, tuple)):
        return [encode(item, depth + 1) for item in value]
    for kind, tag, text in _TAGGED:
        if isinstance(value, kind):
            return {tag: text(value)}
    raise InvalidArgument(f"arguments cannot hold a value of type {type(value).__name__}")


def decode(value: Any) -> Any:
    """The reverse of encode, for JSON from outside; raises InvalidArgument for whatever encode does not make."""
    return _decoded(value, 0, stored=False)


def decode_table(name: str, value: Any) -> dict[str, Any]:
    """The same for a table of arguments or headers, which `name` calls it in errors."""
    try:
        found = decode(value)
    except InvalidArgument as error:
        raise InvalidArgument(f"invalid {name}: {error}") from None
    if not isinstance(found, dict):
        raise InvalidArgument(f"invalid {name}: send an object of names and values, not a single value")
    return found


def restored(value: Any) -> dict[str, Any]:
    """A table that a journal holds: a value that older versions took and `decode` refuses becomes text."""
    found = _decoded(value, 0, stored=True)
    return found if isinstance(found, dict) else {}


def _decoded(value: Any, depth: int, *, stored: bool) -> Any:
    if not isinstance(value, dict | list):
        return value
    if depth >= DEPTH_MAX and not stored:
        raise InvalidArgument(TOO_DEEP)
    if isinstance(value, list):
        return [_decoded(item, depth + 1, stored=stored) for item in value]
    tag = next((key for key in value if key.startswith("$")), None)
    if tag is None:
        return {key: _decoded(item, depth + 1, stored=stored) for key, item in value.items()}
    if len(value) > 1:
        raise InvalidArgument(f"an object with the name '{tag}' has no other names: put them all into '$dict'")
    inside = value[tag]
    if tag == "$dict" and isinstance(inside, dict):
        return {key: _decoded(item, depth + 1, stored=stored) for key, item in inside.items()}
    return _untagged(tag, inside, stored=stored)


def _untagged(tag: str, text: Any, *, stored: bool) -> Any:
    if tag not in _UNTAGGED:
        if stored:
            raise InvalidArgument(f"unknown tag '{tag}' in stored arguments: they were written by a newer version")
        known = ", ".join((*_UNTAGGED, "$dict"))
        raise InvalidArgument(f"'{tag}' is not one of {known}: put names that begin with $ into '$dict'")
    read, kind = _UNTAGGED[tag]
    try:
        if isinstance(text, str):
            return read(text)
    except (ValueError, ArithmeticError, InvalidArgument):
        if stored:
            return text
    raise InvalidArgument(f"'{tag}' is {kind}: correct it")


def canonical(value: object) -> str:
    """One text per value, whatever the order of its keys: the identity of arguments."""
    text = json.dumps(encode(value), sort_keys=True, separators=(",", ":"))
    if len(text) > CANONICAL_BYTES_MAX:
        raise InvalidArgument(f"arguments take {len(text)} bytes, the limit is {CANONICAL_BYTES_MAX}")
    return text


def plain(value: Any) -> Any:
    """A value of an AMQP table; what JSON does not have becomes the nearest that it has. Never raises."""
    if isinstance(value, str):
        return _valid(value)
    if isinstance(value, Mapping):
        return {_valid(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, datetime):
        return int((value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp())
    if isinstance(value, Decimal):
        return _nearest(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _valid(text: str) -> str:
    """Text with "?" for bytes that were no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _nearest(value: Decimal) -> float | str:
    """A decimal as a number, or as text if it is none that JSON has."""
    number = float(value) if value.is_finite() else math.inf
    return number if math.isfinite(number) else str(value)


def _text(data: bytes) -> str:
    """Bytes as text, or in base64 when they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return b64encode(data).decode()


def _encode_integer(value: int) -> int:
    """The integer itself, if a client could ever receive it."""
    if value.bit_length() > INTEGER_BITS_MAX:
        raise InvalidArgument(f"integer arguments have at most {INTEGER_BITS_MAX} bits")
    return value


def _encode_mapping(value: Mapping[Any, object], depth: int) -> dict[str, Any]:
    """A dict with encoded values; wrapped where one of its own keys would read as a tag."""
    if not all(isinstance(key, str) for key in value):
        raise InvalidArgument("the keys of arguments are strings")
    plain = {key: encode(item, depth + 1) for key, item in value.items()}
    return {"$dict": plain} if any(key.startswith("$") for key in plain) else plain
