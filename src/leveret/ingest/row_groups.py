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
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Literal, NamedTuple

from leveret.core.arguments import TIME_MS_MAX
from leveret.core.errors import InvalidArgument
from leveret.core.tables import TABLE_BYTES_MAX
from leveret.ingest.cells import Numbers, Texts

MAGIC = b"LVP1"
HEAD = struct.Struct("<4sIHH")
COLUMN_HEAD = struct.Struct("<BBHI")
NUMBER = struct.Struct("<q")
OFFSET_BYTES = 4
ABSENT = -(1 << 63)
ROWS_MAX = 1_000_000  # some cost an object each while they are published
SHORT_BYTES_MAX = 255  # what AMQP can say in a short string
NAME_BYTES_MAX = 4_096  # of partition keys; of groups and de-duplication ids, which are limited in characters
BODY_BYTES_MAX = (1 << 32) - 1  # the server has a limit of its own
SECONDS_MAX = 1 << 40

CONSTANT, NUMBERS, TEXTS, GAPPED = range(4)


class RowGroupColumn(NamedTuple):
    """What a column is about; `most` are the bytes of a text, or the largest number."""

    number: int
    kind: Literal["text", "number", "bytes"]
    most: int


COLUMNS: dict[str, RowGroupColumn] = {
    "value": RowGroupColumn(1, "bytes", BODY_BYTES_MAX),
    "queue": RowGroupColumn(2, "text", SHORT_BYTES_MAX),
    "exchange": RowGroupColumn(3, "text", SHORT_BYTES_MAX),
    "routing_key": RowGroupColumn(4, "text", SHORT_BYTES_MAX),
    "headers": RowGroupColumn(5, "bytes", TABLE_BYTES_MAX),
    "priority": RowGroupColumn(6, "number", 255),
    "delay_ms": RowGroupColumn(7, "number", TIME_MS_MAX),
    "ttl_ms": RowGroupColumn(8, "number", TIME_MS_MAX),
    "message_group_id": RowGroupColumn(9, "text", NAME_BYTES_MAX),
    "dedup_id": RowGroupColumn(10, "text", NAME_BYTES_MAX),
    "message_id": RowGroupColumn(11, "text", SHORT_BYTES_MAX),
    "content_type": RowGroupColumn(12, "text", SHORT_BYTES_MAX),
    "content_encoding": RowGroupColumn(13, "text", SHORT_BYTES_MAX),
    "correlation_id": RowGroupColumn(14, "text", SHORT_BYTES_MAX),
    "reply_to": RowGroupColumn(15, "text", SHORT_BYTES_MAX),
    "type": RowGroupColumn(16, "text", SHORT_BYTES_MAX),
    "app_id": RowGroupColumn(17, "text", SHORT_BYTES_MAX),
    "timestamp": RowGroupColumn(18, "number", SECONDS_MAX),
    "key": RowGroupColumn(19, "text", NAME_BYTES_MAX),
}
_NAMES = {column.number: name for name, column in COLUMNS.items()}

Cell = bytes | int | None


class ColumnBuffers(NamedTuple):
    """A column on its way out: its form, and the buffers that it consists of."""

    name: str
    form: int
    buffers: Sequence[bytes | memoryview]


def constant(name: str, value: str | bytes | int) -> ColumnBuffers:
    """A column that says the same of all rows."""
    if isinstance(value, int):
        return ColumnBuffers(name, CONSTANT, (NUMBER.pack(value),))
    return ColumnBuffers(name, CONSTANT, (value.encode() if isinstance(value, str) else value,))


def encode(rows: int, parts: Sequence[ColumnBuffers]) -> bytes:
    """A piece of columns."""
    found = [HEAD.pack(MAGIC, rows, len(parts), 0)]
    for part in parts:
        size = sum(len(buffer) for buffer in part.buffers)
        found.append(COLUMN_HEAD.pack(COLUMNS[part.name].number, part.form, 0, size))
        found.extend(map(bytes, part.buffers))
    return b"".join(found)


class RowGroup:
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
        at = HEAD.size
        for _ in range(count):
            at = self._take(data, at)
        if at < len(data):
            raise damaged(f"{len(data) - at} bytes follow its last column")

    def _take(self, data: bytes, at: int) -> int:
        """Read one column; give where it ends."""
        if len(data) - at < COLUMN_HEAD.size:
            raise damaged("it ends in a column")
        size: int
        number, form, zero, size = COLUMN_HEAD.unpack_from(data, at)
        at += COLUMN_HEAD.size
        name = _NAMES.get(number)
        if name is None or zero:
            raise damaged(f"there is no column {number}")
        if name in self.constants or name in self.columns:
            raise damaged(f"{name} comes twice")
        if size > len(data) - at:
            raise damaged(f"{name} is longer than what came")
        is_number = COLUMNS[name].kind == "number"
        if form == CONSTANT:
            told = data[at : at + size]
            self.constants[name] = _constant_number(name, told) if is_number else _constant_text(name, told)
        elif form == NUMBERS and is_number:
            self.columns[name] = _numbers(name, self.rows, data, at, size)
        elif form in (TEXTS, GAPPED) and not is_number:
            self.columns[name] = _texts(name, self.rows, data, at, size, form == GAPPED)
        else:
            raise damaged(f"{name} has no form {form}")
        return at + size

    def cell(self, name: str, row: int) -> Cell:
        column = self.columns.get(name)
        return self.constants.get(name) if column is None else column[row]

    def distinct(self, *names: str) -> set[tuple[Cell, ...]]:
        """What columns say together, each combination once; of a piece without rows, what its constants say."""
        if not self.rows or self.columns.keys().isdisjoint(names):
            return {tuple(self.constants.get(name) for name in names)}
        return set(zip(*(self._cells(name) for name in names), strict=True))

    def _cells(self, name: str) -> Iterable[Cell]:
        column = self.columns.get(name)
        if column is None:
            return repeat(self.constants.get(name), self.rows)
        return (column[row] for row in range(self.rows))


def damaged(what: str) -> InvalidArgument:
    """The refusal of bytes that are no piece."""
    return InvalidArgument(f"this is not a piece of a batch ({what}): send it again, by a client of this version")


def _texts(name: str, rows: int, data: bytes, at: int, size: int, gapped: bool) -> Texts:
    """A column of texts, all of whose offsets are good."""
    if size < ((rows + 7) // 8 if gapped else 0) + (rows + 1) * OFFSET_BYTES:
        raise damaged(f"{name} has {size} bytes for {rows} rows")
    found = Texts(data, at, size, rows, gapped)
    if not found.rising:
        raise damaged(f"{name} has offsets that do not rise to its end")
    if found.longest > COLUMNS[name].most:
        raise InvalidArgument(
            f"{name} has a text of {found.longest} bytes, the limit is {COLUMNS[name].most}: shorten it"
        )
    return found


def _numbers(name: str, rows: int, data: bytes, at: int, size: int) -> Numbers:
    """A column of numbers in their range."""
    if size != rows * NUMBER.size:
        raise damaged(f"{name} has {size} bytes for {rows} rows")
    found = Numbers(data, at, rows)
    for number in (found.least, found.most):
        _check_number(name, number)
    return found


def _constant_number(name: str, data: bytes) -> int:
    if len(data) != NUMBER.size:
        raise damaged(f"{name} is no number")
    (number,) = NUMBER.unpack(data)
    _check_number(name, number)
    return int(number)


def _constant_text(name: str, data: bytes) -> bytes:
    if len(data) > COLUMNS[name].most:
        raise InvalidArgument(f"{name} has {len(data)} bytes, the limit is {COLUMNS[name].most}: shorten it")
    return data


def _check_number(name: str, number: int) -> None:
    if not 0 <= number <= COLUMNS[name].most:
        raise InvalidArgument(f"{name} is from 0 to {COLUMNS[name].most}, not {number}: correct that row")
