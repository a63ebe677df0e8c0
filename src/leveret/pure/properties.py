"""Content headers in Python alone: see leveret/core/properties.pyx."""

from dataclasses import dataclass
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.pure.tables import (
    STORED_BYTES_MAX,
    STORED_FIELDS_MAX,
    MalformedTable,
    TableReader,
    TableWriter,
    short_string,
)

BASIC, PROPERTIES_AT, UNDEFINED = 60, 14, 3
ABSENT, INVALID = -1, -2
EXPIRATION_MS_MAX = 315_360_000_000


@dataclass(slots=True)
class Properties:
    """What a publisher says about a message; None: nothing. `timestamp` is in seconds."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, Any] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


NUMBERS = {"delivery_mode": 1, "priority": 1, "timestamp": 8}
FLAGS = {name: 1 << (15 - place) for place, name in enumerate(Properties.__slots__)}


def decode_header(payload: bytes) -> Properties:
    """The properties of a content header."""
    if len(payload) < PROPERTIES_AT:
        raise MalformedTable("content header too short", len(payload))
    reader = TableReader(payload, 0, STORED_FIELDS_MAX)
    if reader.number(2) != BASIC:
        raise MalformedTable(f"content header of another class than basic ({BASIC})", 0)
    if reader.number(2):
        raise MalformedTable("content header with a weight", 2)
    reader.take(8)
    if (flags := reader.number(2)) & UNDEFINED:
        raise MalformedTable("property flags that are not defined", 12)
    found: dict[str, Any] = {}
    for name in (name for name, flag in FLAGS.items() if flags & flag):
        if name == "headers":
            found[name] = reader.table(STORED_BYTES_MAX)
        else:
            found[name] = reader.number(NUMBERS[name]) if name in NUMBERS else reader.short_string()
    if reader.at != reader.end:
        raise MalformedTable("bytes after the last property", reader.at)
    return Properties(**found)


def encode_header(properties: Properties, body_size: int) -> bytes:
    """The content header of a message."""
    flags, parts = 0, []
    for name, flag in FLAGS.items():
        value = getattr(properties, name)
        if value is not None:
            flags |= flag
            parts.append(_written(name, value))
    return b"".join((BASIC.to_bytes(2), bytes(2), body_size.to_bytes(8), flags.to_bytes(2), *parts))


def _written(name: str, value: Any) -> bytes:
    """One property."""
    if name == "headers":
        if not isinstance(value, dict):
            raise InvalidArgument(f"headers are a dict, not {type(value).__name__}")
        return TableWriter().nested(value)
    if (width := NUMBERS.get(name)) is None:
        if not isinstance(value, str):
            raise InvalidArgument(f"the property {name} is a string, not {type(value).__name__}")
        return short_string(value, name)
    if not isinstance(value, int) or value < 0 or value >> (8 * width):
        raise InvalidArgument(f"the property {name} is a whole number from 0 to 2**{8 * width} - 1")
    return value.to_bytes(width)


def content(properties: Properties | None, body: bytes) -> tuple[bytes, int]:
    """Content header and body as one bytes object, and the length of the header."""
    header = encode_header(properties or Properties(), len(body))
    return header + body, len(header)
