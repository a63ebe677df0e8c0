"""Pieces: rows on their way from a task to the server, by column.

    piece    | magic "LVP1" | u32 rows | u16 columns | u16 0 | column ... |
    column   | u8 number | u8 form | u16 0 | u32 bytes | so many bytes |

    form 0   one value for all rows: a text as it is, a number as i64
    form 1   a number for each row: i64 each, ABSENT where there is none
    form 2   a text for each row: the u32 offset of each and of the end, then the texts; the first offset need not be 0
    form 3   the same after one bit for each row, the lowest first, padded to a byte: 0 where there is no text

Everything is little-endian; no column comes twice. `headers` is a table of AMQP, with its length. Most rows of a batch
differ in nothing but their body: a column that says the same of all of them costs nothing.
"""

import struct
from collections.abc import Sequence
from typing import Literal, NamedTuple

from leveret.core.arguments import TIME_MS_MAX
from leveret.core.errors import InvalidArgument
from leveret.core.tables import TABLE_BYTES_MAX

MAGIC = b"LVP1"
HEAD = struct.Struct("<4sIHH")
COLUMN_HEAD = struct.Struct("<BBHI")
NUMBER = struct.Struct("<q")
OFFSET_BYTES = 4
ABSENT = -(1 << 63)
ROWS_MAX = 1_000_000  # each costs an object while it is published
SHORT_BYTES_MAX = 255  # what AMQP can say in a short string
NAME_BYTES_MAX = 4_096  # of groups and de-duplication ids, which are limited in characters
BODY_BYTES_MAX = (1 << 32) - 1  # the server has a limit of its own
SECONDS_MAX = 1 << 40

CONSTANT, NUMBERS, TEXTS, GAPPED = range(4)


class Column(NamedTuple):
    """What a column is about; `most` are the bytes of a text, or the largest number."""

    number: int
    kind: Literal["text", "number", "bytes"]
    most: int


COLUMNS: dict[str, Column] = {
    "value": Column(1, "bytes", BODY_BYTES_MAX),
    "queue": Column(2, "text", SHORT_BYTES_MAX),
    "exchange": Column(3, "text", SHORT_BYTES_MAX),
    "routing_key": Column(4, "text", SHORT_BYTES_MAX),
    "headers": Column(5, "bytes", TABLE_BYTES_MAX),
    "priority": Column(6, "number", 255),
    "delay_ms": Column(7, "number", TIME_MS_MAX),
    "ttl_ms": Column(8, "number", TIME_MS_MAX),
    "message_group_id": Column(9, "text", NAME_BYTES_MAX),
    "dedup_id": Column(10, "text", NAME_BYTES_MAX),
    "message_id": Column(11, "text", SHORT_BYTES_MAX),
    "content_type": Column(12, "text", SHORT_BYTES_MAX),
    "content_encoding": Column(13, "text", SHORT_BYTES_MAX),
    "correlation_id": Column(14, "text", SHORT_BYTES_MAX),
    "reply_to": Column(15, "text", SHORT_BYTES_MAX),
    "type": Column(16, "text", SHORT_BYTES_MAX),
    "app_id": Column(17, "text", SHORT_BYTES_MAX),
    "timestamp": Column(18, "number", SECONDS_MAX),
}
_NAMES = {column.number: name for name, column in COLUMNS.items()}

Cell = bytes | int | None


class Part(NamedTuple):
    """A column on its way out: its form, and the buffers that it consists of."""

    name: str
    form: int
    buffers: Sequence[bytes | memoryview]


def constant(name: str, value: str | bytes | int) -> Part:
    """A column that says the same of all rows."""
    if isinstance(value, int):
        return Part(name, CONSTANT, (NUMBER.pack(value),))
    return Part(name, CONSTANT, (value.encode() if isinstance(value, str) else value,))


def encode(rows: int, parts: Sequence[Part]) -> bytes:
    """A piece of columns."""
    found = [HEAD.pack(MAGIC, rows, len(parts), 0)]
    for part in parts:
        size = sum(len(buffer) for buffer in part.buffers)
        found.append(COLUMN_HEAD.pack(COLUMNS[part.name].number, part.form, 0, size))
        found.extend(map(bytes, part.buffers))
    return b"".join(found)


class Texts:
    """A text for each row."""

    def __init__(self, name: str, rows: int, data: memoryview, gapped: bool) -> None:
        """Check every offset before any is used."""
        flags_bytes = (rows + 7) // 8 if gapped else 0
        head_bytes = flags_bytes + (rows + 1) * OFFSET_BYTES
        if len(data) < head_bytes:
            raise damaged(f"{name} has {len(data)} bytes for {rows} rows")
        self._flags = data[:flags_bytes]
        offsets = data[flags_bytes:head_bytes].cast("I").tolist()
        self._data = bytes(data[head_bytes:])
        self._first = offsets[0]
        self._offsets = offsets
        lengths = list(map(int.__sub__, offsets[1:], offsets))
        if offsets[-1] - offsets[0] != len(self._data) or (rows and min(lengths) < 0):
            raise damaged(f"{name} has offsets that do not rise to its end")
        if rows and max(lengths) > COLUMNS[name].most:
            raise InvalidArgument(
                f"{name} has a text of {max(lengths)} bytes, the limit is {COLUMNS[name].most}: shorten it"
            )

    def __getitem__(self, row: int) -> bytes | None:
        """The text of a row."""
        if self._flags and not self._flags[row >> 3] >> (row & 7) & 1:
            return None
        return self._data[self._offsets[row] - self._first : self._offsets[row + 1] - self._first]


class Numbers:
    """A number for each row."""

    def __init__(self, name: str, rows: int, data: memoryview) -> None:
        """Check their range."""
        if len(data) != rows * NUMBER.size:
            raise damaged(f"{name} has {len(data)} bytes for {rows} rows")
        self._numbers = data.cast("q").tolist()
        for number in (min(self._numbers, default=0), max(self._numbers, default=0)):
            _check_number(name, number)
        if any(ABSENT < number < 0 for number in self._numbers):
            _check_number(name, -1)

    def __getitem__(self, row: int) -> int | None:
        """The number of a row."""
        number: int = self._numbers[row]
        return None if number == ABSENT else number


class Piece:
    """The rows of a piece; whatever is wrong with its bytes is told when it is made."""

    def __init__(self, data: bytes) -> None:
        """Check everything that can be checked without looking into texts."""
        if len(data) < HEAD.size:
            raise damaged("it is too short")
        magic, rows, count, zero = HEAD.unpack_from(data)
        self.rows: int = rows
        if magic != MAGIC or zero:
            raise damaged("it does not begin as one")
        if self.rows > ROWS_MAX:
            raise InvalidArgument(f"a piece has at most {ROWS_MAX} rows, not {self.rows}: split it up")
        self.constants: dict[str, bytes | int] = {}
        self.columns: dict[str, Texts | Numbers] = {}
        rest = memoryview(data)[HEAD.size :]
        for _ in range(count):
            rest = self._take(rest)
        if rest:
            raise damaged(f"{len(rest)} bytes follow its last column")

    def _take(self, rest: memoryview) -> memoryview:
        """Read one column; give what follows it."""
        if len(rest) < COLUMN_HEAD.size:
            raise damaged("it ends in a column")
        number, form, zero, size = COLUMN_HEAD.unpack_from(rest)
        name = _NAMES.get(number)
        if name is None or zero:
            raise damaged(f"there is no column {number}")
        if name in self.constants or name in self.columns:
            raise damaged(f"{name} comes twice")
        if size > len(rest) - COLUMN_HEAD.size:
            raise damaged(f"{name} is longer than what came")
        data, rest = rest[COLUMN_HEAD.size :][:size], rest[COLUMN_HEAD.size + size :]
        is_number = COLUMNS[name].kind == "number"
        if form == CONSTANT:
            self.constants[name] = _constant_number(name, data) if is_number else _constant_text(name, data)
        elif form == NUMBERS and is_number:
            self.columns[name] = Numbers(name, self.rows, data)
        elif form in (TEXTS, GAPPED) and not is_number:
            self.columns[name] = Texts(name, self.rows, data, form == GAPPED)
        else:
            raise damaged(f"{name} has no form {form}")
        return rest

    def cell(self, name: str, row: int) -> Cell:
        """What a column says of a row."""
        column = self.columns.get(name)
        return self.constants.get(name) if column is None else column[row]

    def distinct(self, name: str) -> set[Cell]:
        """All that a column says."""
        column = self.columns.get(name)
        return {self.constants.get(name)} if column is None else {column[row] for row in range(self.rows)}


def damaged(what: str) -> InvalidArgument:
    """The refusal of bytes that are no piece."""
    return InvalidArgument(f"this is not a piece of a batch ({what}): send it again, by a client of this version")


def _constant_number(name: str, data: memoryview) -> int:
    if len(data) != NUMBER.size:
        raise damaged(f"{name} is no number")
    (number,) = NUMBER.unpack(data)
    if number < 0:
        _check_number(name, -1)
    _check_number(name, number)
    return int(number)


def _constant_text(name: str, data: memoryview) -> bytes:
    if len(data) > COLUMNS[name].most:
        raise InvalidArgument(f"{name} has {len(data)} bytes, the limit is {COLUMNS[name].most}: shorten it")
    return bytes(data)


def _check_number(name: str, number: int) -> None:
    if number != ABSENT and not 0 <= number <= COLUMNS[name].most:
        raise InvalidArgument(f"{name} is from 0 to {COLUMNS[name].most}, not {number}: correct that row")
