"""What a table of the pipeline consists of: columns with their Spark and Arrow types, and how each is made.

Spark takes a batch only if it has exactly the types that were announced, so both are written side by side.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leveret.core.errors import InvalidArgument
from leveret.spark.segments import EntityNames

TIMESTAMP = pa.timestamp("us", tz="UTC")
US_PER_MS = 1000
TIME_COLUMNS = {"events": "at", "messages": "enqueued_at", "records": "enqueued_at"}
NAME_COLUMNS = {"events": "queue", "messages": "queue", "records": "stream"}
NUMBER_COLUMNS = {"events": "seq", "messages": "offset", "records": "offset"}
"""Of the tables of an archive: by which they are partitioned by day, and sorted."""
QUEUE_BITS = 32
"""Of the number of a queue in its shard."""


@dataclass(eq=False, slots=True)
class ColumnBatch:
    """Packed columns from the journal, and the names for their numbers."""

    rows: int
    columns: Mapping[str, bytes]
    names: EntityNames
    shard: int = 0

    def array(self, name: str, kind: pa.DataType) -> pa.Array:
        """A packed column as it is."""
        return pa.Array.from_buffers(kind, self.rows, [None, pa.py_buffer(self.columns[name])])

    def texts(self, name: str, kind: pa.DataType) -> pa.Array:
        """A column of values of different lengths."""
        ends = pa.py_buffer(self.columns[f"{name}_ends"])
        return pa.Array.from_buffers(kind, self.rows, [None, ends, pa.py_buffer(self.columns[name])])


class TableColumn(NamedTuple):
    """One column: its type for Spark and for Arrow, and what makes it."""

    spark: str
    arrow: pa.DataType
    make: Callable[[ColumnBatch], pa.Array]


Table = Mapping[str, TableColumn]


def said(array: pa.Array) -> pa.Array:
    """Null where there is nothing (see storage/journal/columns.pyx)."""
    return pc.if_else(pc.less(array, 0), pa.scalar(None, array.type), array)


def integer(name: str) -> TableColumn:
    """A 32-bit column."""
    return TableColumn("int", pa.int32(), lambda batch: said(batch.array(name, pa.int32())))


def bigint(name: str) -> TableColumn:
    """A 64-bit column."""
    return TableColumn("bigint", pa.int64(), lambda batch: said(batch.array(name, pa.int64())))


def timestamp(name: str) -> TableColumn:
    """A time from a column of milliseconds."""
    return TableColumn(
        "timestamp",
        TIMESTAMP,
        lambda batch: pc.multiply(said(batch.array(name, pa.int64())), US_PER_MS).cast(TIMESTAMP),
    )


def _due(batch: ColumnBatch) -> pa.Array:
    """When a message is due: as it says itself, or by the delay of its queue."""
    delays = {number: queue.delay_ms for number, queue in batch.names.queues.items() if queue.delay_ms}
    due_ms = said(batch.array("due_ms", pa.int64()))
    if delays:
        at = pc.index_in(batch.array("queue", pa.int32()), value_set=pa.array(list(delays), pa.int32()))
        by_queue = pc.add(said(batch.array("enqueued_ms", pa.int64())), pa.array(delays.values(), pa.int64()).take(at))
        due_ms = pc.coalesce(due_ms, by_queue)
    return pc.multiply(due_ms, US_PER_MS).cast(TIMESTAMP)


DUE_AT = TableColumn("timestamp", TIMESTAMP, _due)


def readable(text: str) -> str:
    """A text without the bytes that no client should have sent: Arrow takes none that is not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def looked_up(numbers: pa.Array, names: Mapping[int, str | None]) -> pa.Array:
    """The names of numbers; null for a number that has none."""
    known = pa.array(list(names), numbers.type)
    values = [None if name is None else readable(name) for name in names.values()]
    return pa.array(values, pa.string()).take(pc.index_in(numbers, value_set=known))


def queue_id(batch: ColumnBatch) -> pa.Array:
    """What a queue is known by: shards number theirs each from 1 on."""
    return pc.add(said(batch.array("queue", pa.int32())).cast(pa.int64()), batch.shard << QUEUE_BITS)


def queue_name(batch: ColumnBatch) -> pa.Array:
    """The name of the queue."""
    names = {number: queue.name for number, queue in batch.names.queues.items()}
    return looked_up(batch.array("queue", pa.int32()), names)


def queue_vhost(batch: ColumnBatch) -> pa.Array:
    """The virtual host of the queue."""
    names = {number: queue.vhost for number, queue in batch.names.queues.items()}
    return looked_up(batch.array("queue", pa.int32()), names)


def chosen(table: Table, columns: str | None) -> Table:
    """The columns of a table that are asked for, separated by commas; None: all of them."""
    if columns is None:
        return table
    names = [name.strip() for name in columns.split(",")]
    unknown = [name for name in names if name not in table]
    if unknown or len(set(names)) < len(names):
        raise InvalidArgument(f"columns={columns!r}: name each once, out of {', '.join(table)}")
    return {name: table[name] for name in names}


def spark_schema(table: Table) -> str:
    """The schema in Spark's words."""
    return ", ".join(f"`{name}` {column.spark}" for name, column in table.items())


def record_batch(table: Table, batch: ColumnBatch) -> Any:
    """The batch in Arrow's form, with exactly the announced types."""
    arrays = [column.make(batch) for column in table.values()]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, table[name].arrow) for name in table]))
