"""Method objects to bytes and back.

    | u16 class | u16 method | arguments in the order of the table, up to 8 neighbouring bits in one octet |

Every length is compared with the bytes that remain before anything is read.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from leveret.core.errors import InvalidArgument
from leveret.core.tables import KEY_BYTES_MAX, MalformedTable, decode_table, encode_table
from leveret.wire.methods import METHODS, Method, MethodArgument, MethodSpec
from leveret.wire.replies import ProtocolError, Reply

WIDTHS = {"octet": 1, "short": 2, "long": 4, "longlong": 8}
BITS_MAX = 8  # in one octet


class CodecStep(NamedTuple):
    """How one argument, or one octet of bits, is read and written; what is reserved has neither name nor bits."""

    name: str
    bits: tuple[tuple[str, int], ...]  # each with its mask
    take: Callable[[bytes, int], tuple[Any, int]]
    put: Callable[[Any], bytes]
    zero: bytes


class Layout(NamedTuple):
    """One method with its steps."""

    spec: MethodSpec
    prefix: bytes
    steps: tuple[CodecStep, ...]


def decode(payload: bytes) -> Method:
    """The method in the payload of a method frame; raises ProtocolError and nothing else."""
    layout = LAYOUTS.get(payload[:4])
    if layout is None:
        raise ProtocolError(Reply.COMMAND_INVALID, f"unknown method {payload[:4].hex(' ', 2)}")
    values: dict[str, Any] = {}
    position = 4
    try:
        for step in layout.steps:
            value, position = step.take(payload, position)
            if step.name:
                values[step.name] = value
            for name, mask in step.bits:
                values[name] = value & mask != 0
        if position != len(payload):
            raise MalformedTable("bytes after the last argument", position)
    except MalformedTable as error:
        raise ProtocolError(Reply.SYNTAX_ERROR, f"{layout.spec.name}: {error}") from error
    return layout.spec.kind(**values)


def encode(method: Method) -> bytes:
    """The payload of a method frame; raises InvalidArgument for a value that does not fit."""
    layout = LAYOUT_OF[type(method)]
    return layout.prefix + b"".join(_written(method, step) for step in layout.steps)


def _written(method: Method, step: CodecStep) -> bytes:
    if step.bits:
        return bytes([sum(mask for name, mask in step.bits if getattr(method, name))])
    if not step.name:
        return step.zero
    try:
        return step.put(getattr(method, step.name))
    except (OverflowError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"{type(method).__name__}.{step.name} does not fit its AMQP type: {error}") from error


def _slice(payload: bytes, position: int, size: int) -> tuple[bytes, int]:
    """So many bytes, which must be there."""
    if size > len(payload) - position:
        raise MalformedTable(f"{size} bytes announced, {len(payload) - position} left", position)
    return payload[position : position + size], position + size


def _number(width: int) -> tuple[Callable[[bytes, int], tuple[int, int]], Callable[[int], bytes]]:
    """How to read and write a number of so many bytes."""

    def take(payload: bytes, position: int) -> tuple[int, int]:
        data, position = _slice(payload, position, width)
        return int.from_bytes(data, "big"), position

    return take, lambda value: value.to_bytes(width, "big")


def _take_short_string(payload: bytes, position: int) -> tuple[str, int]:
    size, position = _take_octet(payload, position)
    data, position = _slice(payload, position, size)
    # Names may be any bytes: surrogates bring back those that are not UTF-8.
    return data.decode("utf-8", "surrogateescape"), position


def _put_short_string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > KEY_BYTES_MAX:
        raise OverflowError(f"{len(data)} bytes, the limit is {KEY_BYTES_MAX}")
    return bytes([len(data)]) + data


def _take_long_string(payload: bytes, position: int) -> tuple[bytes, int]:
    size, position = _take_long(payload, position)
    return _slice(payload, position, size)


def _put_long_string(data: bytes) -> bytes:
    return _put_long(len(data)) + data


_take_octet, _put_octet = _number(1)
_take_long, _put_long = _number(4)
CODECS: dict[str, tuple[Callable[[bytes, int], tuple[Any, int]], Callable[[Any], bytes], bytes]] = {
    **{kind: (*_number(width), bytes(width)) for kind, width in WIDTHS.items()},
    "bit": (_take_octet, _put_octet, b"\0"),
    "shortstr": (_take_short_string, _put_short_string, b"\0"),
    "longstr": (_take_long_string, _put_long_string, bytes(4)),
    "table": (decode_table, encode_table, bytes(4)),
}


def _steps(arguments: tuple[MethodArgument, ...]) -> Iterator[CodecStep]:
    """One step for each argument, one for each octet of neighbouring bits."""
    for kind, run in groupby(arguments, key=lambda argument: argument.kind):
        names = ["" if argument.name.startswith("_") else argument.name for argument in run]
        if kind != "bit":
            yield from (CodecStep(name, (), *CODECS[kind]) for name in names)
            continue
        for start in range(0, len(names), BITS_MAX):
            octet = enumerate(names[start : start + BITS_MAX])
            yield CodecStep("", tuple((name, 1 << i) for i, name in octet if name), *CODECS[kind])


def _layout(spec: MethodSpec) -> Layout:
    prefix = spec.class_id.to_bytes(2, "big") + spec.method_id.to_bytes(2, "big")
    return Layout(spec, prefix, tuple(_steps(spec.arguments)))


LAYOUTS = {layout.prefix: layout for layout in map(_layout, METHODS)}
LAYOUT_OF = {layout.spec.kind: layout for layout in LAYOUTS.values()}
