"""Argument values as JSON and back: what JSON lacks is tagged, so that definitions survive the journal unchanged.

bytes     {"$bytes": "base64"}            datetime  {"$time": "2026-01-02T03:04:05+00:00"}
Decimal   {"$decimal": "1.50"}            nan, inf  {"$float": "nan"}
a dict with a key that starts with "$"    {"$dict": {...}}

`plain` is for people and tools instead: without tags, and without a way back.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from leveret.core.errors import InvalidArgument

DEPTH_MAX = 32  # without it a nested document exhausts the interpreter's stack
INTEGER_BITS_MAX = 64  # what AMQP can carry; larger ones could not be delivered to any client
CANONICAL_BYTES_MAX = 128 * 1024  # arguments are kept for ever: without it each binding could pin megabytes

_TAGGED: tuple[tuple[type, str, Callable[[Any], str]], ...] = (
    (bytes, "$bytes", lambda value: b64encode(value).decode("ascii")),
    (datetime, "$time", datetime.isoformat),
    (Decimal, "$decimal", str),
)
_UNTAGGED: dict[str, Callable[[str], object]] = {
    "$bytes": lambda text: b64decode(text, validate=True),
    "$time": datetime.fromisoformat,
    "$decimal": Decimal,
    "$float": float,
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
        raise InvalidArgument(f"arguments are nested deeper than {DEPTH_MAX} levels: flatten them")
    if isinstance(value, Mapping):
        return _encode_mapping(value, depth)
    if isinstance(value, (list, tuple)):
        return [encode(item, depth + 1) for item in value]
    for kind, tag, text in _TAGGED:
        if isinstance(value, kind):
            return {tag: text(value)}
    raise InvalidArgument(f"arguments cannot hold a value of type {type(value).__name__}")


def decode(value: Any) -> Any:
    """The reverse of encode."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("$"):
        return {key: decode(item) for key, item in value.items()}
    if tag == "$dict":
        return {key: decode(item) for key, item in value[tag].items()}
    if tag not in _UNTAGGED:
        raise InvalidArgument(f"unknown tag '{tag}' in stored arguments: they were written by a newer version")
    return _UNTAGGED[tag](value[tag])


def canonical(value: object) -> str:
    """One text per value, whatever the order of its keys: the identity of arguments."""
    text = json.dumps(encode(value), sort_keys=True, separators=(",", ":"))
    if len(text) > CANONICAL_BYTES_MAX:
        raise InvalidArgument(f"arguments take {len(text)} bytes, the limit is {CANONICAL_BYTES_MAX}")
    return text


def plain(value: Any) -> Any:
    """A value of an AMQP table; what JSON does not have becomes the nearest that it has."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


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
