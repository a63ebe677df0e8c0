"""A page: messages of a queue in columns, for readers of many.

    page     | magic 4 | rows 4 | next_len 2 | next | numbers | texts | crc32 of all 4 |        little-endian throughout
    numbers  each column of NUMBERS, a value for each row; -1 where there is nothing
    text     each column of TEXTS: | ends 4 x (rows + 1), the first is 0 | the values, one behind the other |

`next` is where the next page begins, in the words of the part that made this one; empty after the last one. A reader of
columns (Arrow) uses the bytes as they are.
"""

import struct
import zlib
from array import array
from itertools import accumulate
from typing import NamedTuple

from leveret.core.errors import DamagedJournal
from leveret.core.held import Held
from leveret.core.message import Message

MEDIA_TYPE = "application/vnd.leveret.page"
NUMBERS = {
    "seq": "q",
    "enqueued_ms": "q",
    "expiry_ms": "q",
    "bytes": "q",
    "priority": "i",
    "deliveries": "i",
}
TEXTS = ("route", "header", "body")
_HEAD = struct.Struct("<4sIH")
_CRC = struct.Struct("<I")
_MAGIC = b"LPAG"
_END_BYTES = 4


class Page:
    """A page that is being filled."""

    def __init__(self) -> None:
        self._numbers = {name: array(code) for name, code in NUMBERS.items()}
        self._texts: dict[str, list[bytes]] = {name: [] for name in TEXTS}
        self.rows = 0
        self.bytes = 0

    def add(self, held: Held, message: Message, body: bytes) -> None:
        """Put a message on it; `body` need not be what the journal has in its stead."""
        numbers = (held.seq, held.enqueued_ms, held.expiry_ms or -1, len(body), held.priority, held.deliveries)
        for column, number in zip(self._numbers.values(), numbers, strict=True):
            column.append(number)
        for name, text in zip(TEXTS, (message.route, message.header, body), strict=True):
            self._texts[name].append(text)
        self.rows += 1
        self.bytes += len(message.content) + len(body)

    def finish(self, next_at: str = "") -> bytes:
        parts = [_HEAD.pack(_MAGIC, self.rows, len(next_at)), next_at.encode()]
        parts += [column.tobytes() for column in self._numbers.values()]
        for values in self._texts.values():
            parts += [array("i", accumulate(map(len, values), initial=0)).tobytes(), *values]
        data = b"".join(parts)
        return data + _CRC.pack(zlib.crc32(data))


class PageColumns(NamedTuple):
    """A page that was read: numbers and texts by their names, with `_ends` beside each text."""

    rows: int
    columns: dict[str, bytes]
    next_at: str


def read_page(data: bytes, source: str) -> PageColumns:
    """Take a page apart; `source` says in an error where it came from."""
    damaged = DamagedJournal(f"what {source} sent is no page of messages or was changed on its way: ask it again")
    if len(data) < _HEAD.size + _CRC.size or _CRC.unpack(data[-_CRC.size :])[0] != zlib.crc32(data[: -_CRC.size]):
        raise damaged
    magic, rows, next_len = _HEAD.unpack_from(data)
    at, end = _HEAD.size + next_len, len(data) - _CRC.size
    columns: dict[str, bytes] = {}

    def cut(name: str, size: int) -> None:
        nonlocal at
        if size > end - at:
            raise damaged
        columns[name] = data[at : at + size]
        at += size

    for name, code in NUMBERS.items():
        cut(name, rows * array(code).itemsize)
    for name in TEXTS:
        cut(f"{name}_ends", _END_BYTES * (rows + 1))
        cut(name, int.from_bytes(columns[f"{name}_ends"][-_END_BYTES:], "little"))
    if magic != _MAGIC or at != end:
        raise damaged
    return PageColumns(rows, columns, data[_HEAD.size : _HEAD.size + next_len].decode("ascii", "replace"))
