"""Bodies: bytes, text or anything that the serializer can say, each with the content type that tells them apart.

bytes   application/octet-stream            str     text/plain; charset=utf-8
else    what the serializer makes of it: JSON, compact

pydantic and msgspec are known by what their classes have; only a program that uses them has imported them.
"""

import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from leveret.core.errors import InvalidArgument
from leveret.core.properties import Properties, encode_header

BYTES_TYPE = "application/octet-stream"
TEXT_TYPE = "text/plain; charset=utf-8"
JSON_TYPE = "application/json"
PERSISTENT_MODE = 2

T = TypeVar("T")


def plain(value: Any) -> Any:
    """What JSON says in place of a value that it does not know."""
    kind = type(value)
    if is_dataclass(kind):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if hasattr(kind, "model_validate"):  # pydantic
        return value.model_dump(mode="json")
    if hasattr(kind, "__struct_fields__"):  # msgspec
        return {name: getattr(value, name) for name in kind.__struct_fields__}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"Object of type {kind.__name__} is not JSON serializable")


WRONG = (TypeError, ValueError, KeyError, ArithmeticError)
"""What conversions raise."""
FROM_TEXT: dict[type, Callable[[str], Any]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    UUID: UUID,
    Decimal: Decimal,
}


def converted(value: Any, kind: Any) -> Any:
    """A value out of JSON as what a type says; one of WRONG if it is not that."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or (kind is float and type(value) is int):
        return value
    if origin in (Union, types.UnionType):
        return _one_of(value, inner)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if hasattr(kind, "__struct_fields__"):
        import msgspec

        return msgspec.convert(value, kind)
    if hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind)
        given = {each.name for each in fields(kind) if each.init} & _checked(value, dict).keys()
        return kind(**{name: converted(value[name], hints[name]) for name in given})
    if kind in FROM_TEXT:
        return FROM_TEXT[kind](_checked(value, str))
    if origin in (list, Sequence):
        return [converted(each, inner[0]) for each in _checked(value, list)]
    if origin in (dict, Mapping):
        return {converted(name, inner[0]): converted(each, inner[1]) for name, each in _checked(value, dict).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    return _checked(value, origin or (type(None) if kind is None else kind))


def _one_of(value: Any, kinds: tuple[Any, ...]) -> Any:
    """A value as the first of several types that it fits."""
    for kind in kinds:
        try:
            return converted(value, kind)
        except WRONG:
            continue
    raise TypeError(f"{value!r} is none of {kinds}")


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


class Serializer:
    """What makes bytes of bodies that are neither bytes nor text, and the reverse: JSON. See use_serializer()."""

    content_type = JSON_TYPE
    _encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=plain).encode

    def dumps(self, body: Any) -> bytes:
        """A body as bytes; TypeError or ValueError if that cannot be."""
        return _encoded(self._encode(body))

    def loads(self, data: bytes) -> Any:
        """The body of such bytes."""
        return json.loads(data)

    def convert(self, body: Any, kind: type[T]) -> T:
        """A body that came out of loads() as a dataclass, a model of pydantic, a struct of msgspec or what else."""
        found: T = converted(body, kind)
        return found


_JSON = _serializer = Serializer()


def use_serializer(serializer: Serializer) -> None:
    """Replace the serializer of this process; messages that are there are read by the content type that they have."""
    global _serializer
    HEADERS.setdefault(serializer.content_type, _header(serializer.content_type))
    _serializer = serializer


def _header(content_type: str) -> bytes:
    """The content header of a message without other properties."""
    return encode_header(Properties(content_type=content_type, delivery_mode=PERSISTENT_MODE), 0)


HEADERS: dict[str, bytes] = {each: _header(each) for each in (BYTES_TYPE, TEXT_TYPE, JSON_TYPE)}


def encode(body: Any) -> tuple[str, bytes]:
    """The content type and the bytes of a body."""
    if isinstance(body, bytes):
        return BYTES_TYPE, body
    if isinstance(body, bytearray | memoryview):
        return BYTES_TYPE, bytes(body)
    if isinstance(body, str):
        return TEXT_TYPE, _encoded(body)
    try:
        return _serializer.content_type, _serializer.dumps(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the body is not bytes, text or JSON: {error}; encode it yourself to bytes") from None


def decode(content_type: str | None, data: bytes) -> Any:
    """The body as it was sent."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    try:
        if kind == _serializer.content_type:
            return _serializer.loads(data)
        if kind == JSON_TYPE:
            return _JSON.loads(data)
        if kind == "text/plain":
            return data.decode()
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the body is not what its content type {kind} says ({error}): use .data") from None
    return data


def decode_as(kind: type[T], body: Any) -> T:
    """A body that came out of decode() as a type."""
    try:
        return _serializer.convert(body, kind)
    except WRONG as error:
        raise InvalidArgument(f"the body is no {getattr(kind, '__name__', kind)} ({error}): look at .body") from None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("the body has text that is not valid Unicode: send it as bytes") from None
