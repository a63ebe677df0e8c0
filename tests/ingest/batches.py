"""Pieces made by hand, and requests that stage and commit them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from leveret.ingest.row_groups import ABSENT, GAPPED, NUMBERS, TEXTS, ColumnBuffers, constant, encode
from tests.protocols.rest.world import RestWorld

TO_ORDERS = (constant("queue", "orders"),)


def texts(name: str, values: Sequence[bytes | None]) -> ColumnBuffers:
    """A column of texts, with gaps if there are some."""
    present = [value or b"" for value in values]
    offsets = [sum(map(len, present[:count])) for count in range(len(present) + 1)]
    data = struct.pack(f"<{len(offsets)}I", *offsets) + b"".join(present)
    if None not in values:
        return ColumnBuffers(name, TEXTS, (data,))
    flags = bytearray((len(values) + 7) // 8)
    for row, value in enumerate(values):
        flags[row // 8] |= (value is not None) << row % 8
    return ColumnBuffers(name, GAPPED, (bytes(flags), data))


def numbers(name: str, values: Sequence[int | None]) -> ColumnBuffers:
    """A column of numbers."""
    return ColumnBuffers(
        name, NUMBERS, (struct.pack(f"<{len(values)}q", *(ABSENT if n is None else n for n in values)),)
    )


def bodies(first: int, count: int) -> list[bytes]:
    """Numbered bodies."""
    return [b"%d" % number for number in range(first, first + count)]


def row_group(values: Sequence[bytes | None], *columns: ColumnBuffers) -> bytes:
    """A piece for the queue `orders`, unless columns say otherwise."""
    return encode(len(values), (*(columns or TO_ORDERS), texts("value", values)))


class Batch:
    """One batch on its way to a server."""

    def __init__(self, world: RestWorld, sink: str = "s", number: int = 0, token: str | None = None) -> None:
        self.world = world
        self.sink = sink
        self.number = number
        self.token = token
        self.parts: list[dict[str, Any]] = []
        self.rows = 0

    def stage(self, part: str, *row_groups: tuple[bytes, int]) -> Batch:
        """Stage a part; each piece with its number of rows."""
        for number, (data, rows) in enumerate(row_groups):
            line = f"PUT /sinks/{self.sink}/parts/{part}/{number}"
            assert self.world.ok(line, data, token=self.token) == {"rows": rows}
            self.rows += rows
        self.parts.append({"part": part, "pieces": len(row_groups)})
        return self

    def commit(self, **options: Any) -> Any:
        """Ask for the commit; gives the answer, whatever it is."""
        body = {"parts": self.parts, "rows": self.rows, **options}
        return self.world.call(f"POST /sinks/{self.sink}/batches/{self.number}", body, token=self.token)
