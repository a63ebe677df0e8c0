"""The bytes of a request with spans, as OTLP has them in Protocol Buffers.

    request 1    resource spans
      1          resource:  1 attribute ...
      2          spans of a scope
        1        scope:     1 name
        2        span:      1 trace 16 bytes | 2 id 8 bytes | 3 state | 4 parent 8 bytes | 5 name | 6 kind
                            7 start 8 bytes | 8 end 8 bytes | 9 attribute ...
    attribute    1 key | 2 value:  1 text | 3 number | 5 list:  1 value ...

A field is its number and its type in one byte, here, then a number in groups of seven bits, eight bytes with the lowest
first, or a length and so many bytes. Written by hand because a library that builds an object for each part takes five
times as long, in the thread that shares the interpreter with the loop.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import pack

from leveret.clock import give_turn
from leveret.observability.spans import Attribute, TraceSpan

SCOPE = "leveret"
KINDS = {"INTERNAL": 1, "SERVER": 2}
UNIQUE = frozenset(("messaging.message.id", "messaging.message.conversation_id"))
"""Attributes whose values hardly come twice."""
ATTRIBUTES_KEPT_MAX = 4_096
TURN_SPANS = 16  # encoded before the loop may have the interpreter
NUMBER, EIGHT_BYTES, BYTES = 0, 1, 2


def number(value: int) -> bytes:
    """A number in groups of seven bits."""
    value &= (1 << 64) - 1  # negative ones are written as their complement
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def field(which: int, data: bytes) -> bytes:
    """A field of bytes."""
    size = len(data)
    if size <= 0x7F:
        return bytes((which << 3 | BYTES, size)) + data
    return bytes((which << 3 | BYTES,)) + number(size) + data


def text(which: int, value: str) -> bytes:
    """A field of text."""
    return field(which, value.encode("utf-8", "replace"))


def attribute(which: int, key: str, value: Attribute) -> bytes:
    """A field that is a key and its value."""
    if isinstance(value, str) and key not in UNIQUE:
        return _kept(which, key, value)
    return field(which, _key(key) + field(2, _value(value)))


@lru_cache(ATTRIBUTES_KEPT_MAX)
def _kept(which: int, key: str, value: str) -> bytes:
    return field(which, _key(key) + field(2, _value(value)))


@lru_cache(ATTRIBUTES_KEPT_MAX)
def _key(key: str) -> bytes:
    return text(1, key)


def _value(value: Attribute) -> bytes:
    if isinstance(value, str):
        return text(1, value)
    if isinstance(value, int):
        return bytes((3 << 3 | NUMBER,)) + number(value)
    return field(5, b"".join([field(1, _value(each)) for each in value]))


def span_bytes(span: TraceSpan) -> bytes:
    """One span."""
    parts = [
        field(1, span.trace_id.to_bytes(16, "big")),
        field(2, span.span_id.to_bytes(8, "big")),
        text(3, span.state) if span.state else b"",
        field(4, span.parent_id.to_bytes(8, "big")) if span.parent_id else b"",
        text(5, span.name),
        bytes((6 << 3 | NUMBER, KINDS[span.kind])),
        pack("<BQBQ", 7 << 3 | EIGHT_BYTES, span.start_ns, 8 << 3 | EIGHT_BYTES, span.end_ns),
        *[attribute(9, key, value) for key, value in span.attributes.items()],
    ]
    return b"".join(parts)


def request(resource: Mapping[str, str], spans: list[TraceSpan]) -> bytes:
    """A request with spans of one resource."""
    written = []
    for place, span in enumerate(spans, start=1):
        written.append(field(2, span_bytes(span)))
        if place % TURN_SPANS == 0:
            give_turn()
    described = field(1, b"".join([attribute(1, key, value) for key, value in resource.items()]))
    scope = field(1, text(1, SCOPE))
    return field(1, described + field(2, scope + b"".join(written)))
