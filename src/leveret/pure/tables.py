"""Field tables in Python alone: see leveret/core/tables.pyx, whose types, limits and errors these are."""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from leveret.core.errors import InvalidArgument

TABLE_DEPTH_MAX, TABLE_FIELDS_MAX, TABLE_BYTES_MAX, KEY_BYTES_MAX = 32, 1_000, 131_072, 255
STORED_FIELDS_MAX, STORED_BYTES_MAX = 4_000, 196_608
SECONDS_MAX = 253_402_300_799
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MalformedTable(ValueError):
    """Bytes that are no table or no content header, or that go over a limit; `offset` says where."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(f"{what} at byte {offset}")
        self.offset = offset


class Long(int):
    """An integer that travels in 64 bits even if 32 would do."""


class Timestamp(int):
    """Seconds since 1970 that are beyond the years of a datetime."""


class LongString(bytes):
    """A long string that is not UTF-8."""


class TableReader:
    """A place in bytes that are not to be trusted."""

    def __init__(self, data: bytes, at: int = 0, fields_max: int = TABLE_FIELDS_MAX) -> None:
        self.data, self.at, self.end, self._fields_left, self._depth = data, at, len(data), fields_max, 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size > self.end - self.at:
            raise MalformedTable(f"{size} bytes announced, {self.end - self.at} left", self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        """The next bytes as one number."""
        return int.from_bytes(self.take(size))

    def short_string(self) -> str:
        return self.take(self.number(1)).decode("utf-8", "surrogateescape")

    def table(self, bytes_max: int) -> dict[str, Any]:
        """A table with its length before it."""
        if (size := self.number(4)) > bytes_max:
            raise MalformedTable(f"table of {size} bytes, the limit is {bytes_max}", self.at)
        return self._fields(size)

    def _inside(self, size: int, each: Callable[[], None]) -> None:
        """Go through a table or array of so many bytes."""
        if size > self.end - self.at:
            raise MalformedTable(f"{size} bytes announced, {self.end - self.at} left", self.at)
        if self._depth == TABLE_DEPTH_MAX:
            raise MalformedTable("tables and arrays nested too deep", self.at)
        outer, self.end, self._depth = self.end, self.at + size, self._depth + 1
        while self.at < self.end:
            each()
        self.end, self._depth = outer, self._depth - 1

    def _fields(self, size: int) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def field() -> None:
            key = self.short_string()
            value = self._value()
            found.setdefault(key, value)

        self._inside(size, field)
        return found

    def _elements(self, size: int) -> list[Any]:
        found: list[Any] = []
        self._inside(size, lambda: found.append(self._value()))
        return found

    def _value(self) -> Any:
        if not self._fields_left:
            raise MalformedTable("too many fields", self.at)
        self._fields_left -= 1
        kind = self.take(1)
        if kind in _FIXED:
            size, make = _FIXED[kind]
            return make(self.take(size))
        if kind == b"F":
            return self._fields(self.number(4))
        if kind == b"A":
            return self._elements(self.number(4))
        if kind not in (b"S", b"x"):
            raise MalformedTable("unknown field type", self.at)
        text = self.take(self.number(4))
        return text if kind == b"x" else _long_string(text)


def decode_table(data: bytes, offset: int = 0) -> tuple[dict[str, Any], int]:
    """The table at an offset and the offset after it."""
    if not 0 <= offset <= len(data):
        raise MalformedTable("no table", offset)
    reader = TableReader(data, offset)
    return reader.table(TABLE_BYTES_MAX), reader.at


def encode_table(table: dict[str, Any]) -> bytes:
    """The bytes of a table."""
    return TableWriter().nested(table)


class TableWriter:
    """The reverse."""

    def __init__(self) -> None:
        self._fields_left, self._depth = STORED_FIELDS_MAX, 0

    def nested(self, items: dict[str, Any] | list[Any] | tuple[Any, ...]) -> bytes:
        """A table or an array with its length before it."""
        if self._depth == TABLE_DEPTH_MAX:
            raise InvalidArgument(f"tables and arrays are nested at most {TABLE_DEPTH_MAX} deep: flatten the headers")
        if len(items) > self._fields_left:
            raise InvalidArgument(f"a table has at most {STORED_FIELDS_MAX} fields: put what is large into the body")
        self._depth += 1
        self._fields_left -= len(items)
        if isinstance(items, dict):
            parts = [short_string(_name(key), "a header name") + self._value(value) for key, value in items.items()]
        else:
            parts = [self._value(value) for value in items]
        self._depth -= 1
        written = b"".join(parts)
        if len(written) > STORED_BYTES_MAX:
            raise InvalidArgument(f"a table has at most {STORED_BYTES_MAX} bytes: put what is large into the body")
        return len(written).to_bytes(4) + written

    def _value(self, value: Any) -> bytes:
        for types, write in _WRITTEN:
            if isinstance(value, types):
                return write(value)
        if value is None:
            return b"V"
        if isinstance(value, (dict, list, tuple)):
            return (b"F" if isinstance(value, dict) else b"A") + self.nested(value)
        raise InvalidArgument(f"AMQP has no type for {type(value).__name__}: send it in the body or as a string")


def short_string(text: str, what: str) -> bytes:
    """A string of at most 255 bytes; `what` names it in the error."""
    encoded = _utf8(text)
    if len(encoded) > KEY_BYTES_MAX:
        raise InvalidArgument(f"{what} has {len(encoded)} bytes, the limit is {KEY_BYTES_MAX}: shorten it")
    return len(encoded).to_bytes(1) + encoded


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise InvalidArgument(f"a header name is a string, not {key!r}")
    return key


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{text!r} cannot be written as UTF-8: send it as bytes") from error


def _prefixed(kind: bytes, value: bytes) -> bytes:
    return kind + len(value).to_bytes(4) + value


def _integer(value: int) -> bytes:
    if isinstance(value, Timestamp):
        return b"T" + value.to_bytes(8)
    if -(1 << 31) <= value < 1 << 31 and not isinstance(value, Long):
        return b"I" + value.to_bytes(4, signed=True)
    if not -(1 << 63) <= value < 1 << 63:
        raise InvalidArgument("an integer header has at most 64 bits: send a larger one as a string")
    return b"l" + value.to_bytes(8, signed=True)


def _time(time: datetime) -> bytes:
    if time.tzinfo is None or time < EPOCH:
        raise InvalidArgument(f"{time} is no AMQP timestamp: give a datetime with a time zone, from 1970 on")
    seconds: int = (time - EPOCH) // timedelta(seconds=1)
    return b"T" + seconds.to_bytes(8)


def _decimal(value: Decimal) -> bytes:
    negative, digits, exponent = value.as_tuple()
    if not negative and isinstance(exponent, int) and -255 <= exponent <= 10 and len(digits) <= 10:
        unscaled: int = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
        if unscaled <= 0xFFFFFFFF:
            return b"D" + max(-exponent, 0).to_bytes(1) + unscaled.to_bytes(4)
    raise InvalidArgument("a decimal header has at most 32 bits and no sign: send any other as a string")


_WRITTEN: tuple[tuple[Any, Callable[[Any], bytes]], ...] = (
    (str, lambda value: _prefixed(b"S", _utf8(value))),
    (bool, lambda value: b"t" + bytes([value])),
    (int, _integer),
    (float, lambda value: b"d" + struct.pack(">d", value)),
    (LongString, lambda value: _prefixed(b"S", bytes(value))),
    ((bytes, bytearray, memoryview), lambda value: _prefixed(b"x", bytes(value))),
    (datetime, _time),
    (Decimal, _decimal),
)


def _signed(data: bytes) -> int:
    return int.from_bytes(data, signed=True)


def _long(data: bytes) -> int:
    value = _signed(data)
    return Long(value) if -(1 << 31) <= value < 1 << 31 else value


def _seconds(data: bytes) -> datetime | Timestamp:
    value = int.from_bytes(data)
    return datetime.fromtimestamp(value, UTC) if value <= SECONDS_MAX else Timestamp(value)


def _long_string(text: bytes) -> str | LongString:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return LongString(text)


_FIXED: dict[bytes, tuple[int, Callable[[bytes], Any]]] = {
    b"V": (0, lambda data: None),
    b"t": (1, lambda data: data != b"\0"),
    b"b": (1, _signed),
    b"B": (1, int.from_bytes),
    b"s": (2, _signed),
    b"u": (2, int.from_bytes),
    b"I": (4, _signed),
    b"i": (4, int.from_bytes),
    b"f": (4, lambda data: struct.unpack(">f", data)[0]),
    b"D": (5, lambda data: Decimal(f"{int.from_bytes(data[1:])}E-{data[0]}")),
    b"l": (8, _long),
    b"L": (8, _long),
    b"d": (8, lambda data: struct.unpack(">d", data)[0]),
    b"T": (8, _seconds),
}
