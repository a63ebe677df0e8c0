"""Batches of Arrow as pieces of a sink: columns are copied as they lie in memory, rows are not looked at."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leveret.core.errors import InvalidArgument
from leveret.core.tables import encode_table
from leveret.ingest.row_groups import (
    ABSENT,
    COLUMNS,
    GAPPED,
    NUMBERS,
    OFFSET_BYTES,
    TEXTS,
    ColumnBuffers,
    constant,
    encode,
)

PIECE_BYTES = 4 << 20
"""Large enough that the cost of a request does not show, small enough for a server with many tasks."""
PIECE_ROWS = 100_000
NUMBER_BYTES = 8

Constants = Mapping[str, str | int]


def row_groups(batches: Iterable[pa.RecordBatch], constants: Constants) -> Iterator[tuple[int, bytes]]:
    """Pieces of a good size with the number of their rows, in the order of the batches."""
    said = [constant(name, value) for name, value in constants.items()]
    for batch in _sized(batches):
        parts = [part for name in batch.schema.names for part in _column(name, batch.column(name))]
        yield batch.num_rows, encode(batch.num_rows, [*said, *parts])


def _sized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches joined, large ones split."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.nbytes for each in waiting) >= PIECE_BYTES:
            yield from _split(_joined(waiting))
            waiting = []
    if sum(each.num_rows for each in waiting):
        yield from _split(_joined(waiting))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    arrays = [pa.concat_arrays(each.column(place) for each in batches) for place in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batches[0].schema)


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halves of halves until each is small enough; one row cannot be split."""
    if batch.num_rows > 1 and (batch.nbytes > 2 * PIECE_BYTES or batch.num_rows > PIECE_ROWS):
        half = batch.num_rows // 2
        yield from _split(batch.slice(0, half))
        yield from _split(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _column(name: str, array: pa.Array) -> Iterator[ColumnBuffers]:
    """A column, unless it says nothing."""
    if array.null_count == len(array) and name != "value":
        return
    if name == "headers":
        rows = array.to_pylist()
        array = pa.array([None if row is None else _headers(row) for row in rows], pa.binary())
    if COLUMNS[name].kind == "number":
        yield _numbers(name, array)
    else:
        yield _texts(name, array)


def _headers(row: list[tuple[str, Any]]) -> bytes:
    """A table of AMQP: of typed headers, which are structs, each in the type of the one field that is not null."""
    return encode_table({name: _typed(name, value) if isinstance(value, dict) else value for name, value in row})


def _typed(name: str, fields: dict[str, Any]) -> Any:
    given = {kind: value for kind, value in fields.items() if value is not None}
    if len(given) > 1:
        raise InvalidArgument(f"header {name!r} is {' and '.join(given)}: give one of them, and null for the others")
    for kind, value in given.items():
        return json.loads(value) if kind == "json" else value
    return None


def _numbers(name: str, array: pa.Array) -> ColumnBuffers:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("s", array.type.tz), safe=False)
    filled = array.cast(pa.int64()).fill_null(ABSENT)
    start = filled.offset * NUMBER_BYTES
    return ColumnBuffers(name, NUMBERS, (memoryview(filled.buffers()[1])[start : start + len(filled) * NUMBER_BYTES],))


def _texts(name: str, array: pa.Array) -> ColumnBuffers:
    array = array.cast(pa.binary())
    _, offsets, data = array.buffers()
    start = array.offset * OFFSET_BYTES
    told = memoryview(offsets)[start : start + (len(array) + 1) * OFFSET_BYTES]
    ends = told.cast("i")
    texts = memoryview(b"" if data is None else data)[ends[0] : ends[-1]]
    if not array.null_count:
        return ColumnBuffers(name, TEXTS, (told, texts))
    return ColumnBuffers(name, GAPPED, (_flags(array), told, texts))


def _flags(array: pa.Array) -> bytes:
    """A bit for each row: whether there is something."""
    valid = pa.concat_arrays([pc.is_valid(array)])
    flags = memoryview(valid.buffers()[1])[: (len(valid) + 7) // 8]
    assert valid.offset == 0, "what was computed begins at its first bit"
    return bytes(flags)
