"""The tables `stream` and `queue`: records of a stream with their offsets, messages of a queue with their deliveries.

Both share the columns of properties with `messages`. A column names the packed values that it is made of, so that
only those are copied.
"""

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leveret.core.page import PageColumns
from leveret.spark.columns import (
    ColumnBatch,
    Table,
    TableColumn,
    bigint,
    integer,
    queue_name,
    queue_vhost,
    record_batch,
    timestamp,
)
from leveret.spark.messages import MESSAGES, header
from leveret.spark.segments import EntityNames, QueueName

VHOST = "/"
KEY = "x-partition-key"
_NUMBER = 0  # the one queue or stream of a batch
_NUMBER_BYTES = 4


def _value(batch: ColumnBatch) -> pa.Array:
    """The bodies."""
    return batch.texts("body", pa.binary())


def _label(name: str) -> TableColumn:
    """A short text that may be missing."""

    def make(batch: ColumnBatch) -> pa.Array:
        found = batch.texts(name, pa.binary()).dictionary_encode()
        known = [value.decode("utf-8", "replace") or None for value in found.dictionary.to_pylist()]
        return pa.array(known, pa.string()).take(found.indices)

    return TableColumn("string", pa.string(), make)


def _redelivered(batch: ColumnBatch) -> pa.Array:
    """Whether it was delivered before."""
    return pc.greater(batch.array("deliveries", pa.int32()), 1)


def _key(batch: ColumnBatch) -> pa.Array:
    """What chose the partition: a header, or the routing key; straight to the stream that is only its name."""
    straight = pc.equal(ROUTE["exchange"].make(batch), "")
    routing_key = pc.if_else(straight, pa.scalar(None, pa.string()), ROUTE["routing_key"].make(batch))
    return pc.coalesce(header(KEY).make(batch), routing_key)


ROUTE: Table = {name: MESSAGES[name] for name in ("exchange", "routing_key")}
PROPERTIES: Table = {
    name: MESSAGES[name]
    for name in (
        "message_id", "correlation_id", "content_type", "content_encoding", "reply_to", "expiration", "type", "user_id",
        "app_id", "timestamp", "headers", "x_death", "message_group_id", "dedup_id",
    )
}  # fmt: skip
STREAM: Table = {
    "value": TableColumn("binary", pa.binary(), _value),
    "key": TableColumn("string", pa.string(), _key),
    "stream": TableColumn("string", pa.string(), queue_name),
    "partition": integer("partition"),
    "offset": bigint("seq"),
    **ROUTE,
    "enqueued_at": timestamp("enqueued_ms"),
    "bytes": bigint("bytes"),
    "filter_value": _label("filter_value"),
    "producer": _label("producer"),
    "sequence": bigint("sequence"),
    **PROPERTIES,
}
QUEUE: Table = {
    "value": TableColumn("binary", pa.binary(), _value),
    "vhost": TableColumn("string", pa.string(), queue_vhost),
    "queue": TableColumn("string", pa.string(), queue_name),
    "offset": bigint("seq"),
    **ROUTE,
    "priority": integer("priority"),
    "bytes": bigint("bytes"),
    "enqueued_at": timestamp("enqueued_ms"),
    "expires_at": timestamp("expiry_ms"),
    "delivery_count": integer("deliveries"),
    "redelivered": TableColumn("boolean", pa.bool_(), _redelivered),
    **PROPERTIES,
}


MADE_OF: dict[str, tuple[str, ...]] = {
    "value": ("body",),
    "key": ("route", "header"),
    "filter_value": ("filter_value",),
    "producer": ("producer",),
    **dict.fromkeys(ROUTE, ("route",)),
    **dict.fromkeys(PROPERTIES, ("header",)),
}


def texts_of(columns: Collection[str]) -> frozenset[str]:
    """The values of records that columns are made of."""
    return frozenset(text for name in columns for text in MADE_OF.get(name, ()))


def stream_batch(table: Table, stream: str, partition: int, rows: int, columns: dict[str, bytes]) -> Any:
    """Packed columns of a partition in Arrow's form."""
    numbers = {"queue": bytes(_NUMBER_BYTES * rows), "partition": partition.to_bytes(_NUMBER_BYTES, "little") * rows}
    return _batch(table, QueueName(VHOST, stream), rows, {**columns, **numbers})


def queue_batch(table: Table, queue: QueueName, page: PageColumns) -> Any:
    """A page of a queue in Arrow's form."""
    return _batch(table, queue, page.rows, {**page.columns, "queue": bytes(_NUMBER_BYTES * page.rows)})


def _batch(table: Table, name: QueueName, rows: int, columns: dict[str, bytes]) -> Any:
    """Packed columns of one queue in Arrow's form; what came over the wire is not believed before it is looked at."""
    made = record_batch(table, ColumnBatch(rows, columns, EntityNames({_NUMBER: name})))
    made.validate(full=True)
    return made
