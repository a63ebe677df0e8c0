"""The table `messages`: one row for each message in each queue that it was published to, with its body.

`value` is null when the body lies in the blob store (it is deleted there once the message is settled). Properties are
decoded only if a column asks for them, and once for each different header of a batch.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leveret.core.deadletter import DEATHS as DEATH_HEADER
from leveret.core.deadletter import deaths_of
from leveret.core.errors import InvalidArgument
from leveret.core.properties import Properties, decode_header
from leveret.core.tables import MalformedTable
from leveret.spark.columns import (
    DUE_AT,
    TIMESTAMP,
    ColumnBatch,
    Table,
    TableColumn,
    bigint,
    integer,
    queue_id,
    queue_name,
    queue_vhost,
    readable,
    timestamp,
)

INT64_MAX = (1 << 63) - 1
HEADERS = pa.map_(pa.string(), pa.string())


def _value(batch: ColumnBatch) -> pa.Array:
    """The bodies."""
    blobs = batch.array("blob", pa.uint8()).cast(pa.bool_())
    bodies = batch.texts("body", pa.binary())
    return pc.if_else(blobs, pa.scalar(None, pa.binary()), bodies) if blobs.true_count else bodies


def _route(part: int) -> Callable[[ColumnBatch], pa.Array]:
    """Exchange (0) or routing key (1)."""

    def make(batch: ColumnBatch) -> pa.Array:
        routes = batch.texts("route", pa.binary()).dictionary_encode()
        return pa.array([_short_strings(route)[part] for route in routes.dictionary.to_pylist()], pa.string()).take(
            routes.indices
        )

    return make


def _short_strings(route: bytes) -> list[str]:
    """The two short strings of a route."""
    return [text.decode("utf-8", "replace") for text in (route[1 : 1 + route[0]], route[2 + route[0] :])]


def _of_properties(get: Callable[[Properties], Any], arrow: pa.DataType) -> Callable[[ColumnBatch], pa.Array]:
    """A column that is made from decoded properties."""

    def make(batch: ColumnBatch) -> pa.Array:
        indices, properties = _properties(batch)
        return pa.array([get(each) for each in properties], arrow).take(indices)

    return make


@lru_cache(1)  # the columns of a batch are made one after the other
def _properties(batch: ColumnBatch) -> tuple[pa.Array, list[Properties]]:
    """The different properties of a batch, and which of them each row has."""
    headers = batch.texts("header", pa.binary()).dictionary_encode()
    return headers.indices, [_decoded(header) for header in headers.dictionary.to_pylist()]


def _of_header(name: str, get: Callable[[Properties], Any], arrow: pa.DataType) -> Callable[[ColumnBatch], pa.Array]:
    """A column that is made from one header: only content headers in which its name occurs are decoded."""

    def make(batch: ColumnBatch) -> pa.Array:
        headers = batch.texts("header", pa.binary()).dictionary_encode()
        named = pc.match_substring(headers.dictionary, name.encode()).to_pylist()
        found = zip(headers.dictionary, named, strict=True)
        values = [get(_decoded(each.as_py())) if has else None for each, has in found]
        return pa.array(values, arrow).take(headers.indices)

    return make


def _decoded(header: bytes) -> Properties:
    """The properties in a content header; none in one that cannot be read, which no client could send."""
    try:
        return decode_header(header)
    except MalformedTable:
        return Properties()


def _text(value: object) -> str:
    """A header's value as text."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value, default=_text) if isinstance(value, (dict, list)) else str(value)


def _count(value: object) -> int | None:
    """A number that fits; a publisher may have made it up."""
    return value if isinstance(value, int) and 0 <= value <= INT64_MAX else None


def _time(value: object) -> datetime | None:
    """A time, if it is one."""
    return value if isinstance(value, datetime) else None


class HeaderType(NamedTuple):
    """A field of typed headers: its types, the values of AMQP that are in it, and how they are read."""

    spark: str
    arrow: pa.DataType
    kinds: tuple[type, ...]
    read: Callable[[Any], object]


HEADER_TYPES: dict[str, HeaderType] = {
    "string": HeaderType("string", pa.string(), (str,), readable),
    "boolean": HeaderType("boolean", pa.bool_(), (bool,), bool),
    "bigint": HeaderType("bigint", pa.int64(), (int,), int),
    "double": HeaderType("double", pa.float64(), (float, Decimal), float),
    "binary": HeaderType("binary", pa.binary(), (bytes,), bytes),
    "timestamp": HeaderType("timestamp", TIMESTAMP, (datetime,), lambda value: value),
    "json": HeaderType("string", pa.string(), (dict, list), _text),
}
TYPED_HEADERS = pa.map_(pa.string(), pa.struct([(name, kind.arrow) for name, kind in HEADER_TYPES.items()]))
TYPED_HEADERS_SPARK = f"map<string,struct<{','.join(f'{name}:{kind.spark}' for name, kind in HEADER_TYPES.items())}>>"


def _headers(
    properties: Properties, told: Callable[[object], object] = lambda value: None if value is None else _text(value)
) -> dict[str, Any] | None:
    """All headers, as texts unless told otherwise."""
    if properties.headers is None:
        return None
    return {readable(name): told(value) for name, value in properties.headers.items()}


def _typed(value: object) -> dict[str, object] | None:
    """A header's value in the field of its type."""
    if isinstance(value, int) and value > INT64_MAX:
        return {"json": str(value)}
    for name, kind in HEADER_TYPES.items():
        if isinstance(value, kind.kinds):
            return {name: kind.read(value)}
    return None


class DeathFact(NamedTuple):
    """One fact of a death: its types, and how it is read."""

    spark: str
    arrow: pa.DataType
    read: Callable[[Any], Any]


DEATH: dict[str, DeathFact] = {
    "queue": DeathFact("string", pa.string(), _text),
    "reason": DeathFact("string", pa.string(), _text),
    "exchange": DeathFact("string", pa.string(), _text),
    "count": DeathFact("bigint", pa.int64(), _count),
    "time": DeathFact("timestamp", TIMESTAMP, _time),
}
DEATHS = pa.list_(pa.field("element", pa.struct([(name, fact.arrow) for name, fact in DEATH.items()])))
DEATHS_SPARK = f"array<struct<{','.join(f'{name}:{fact.spark}' for name, fact in DEATH.items())}>>"


def _deaths(properties: Properties) -> list[dict[str, Any]] | None:
    """Where the message died before."""
    return [
        {name: fact.read(death.get(name)) for name, fact in DEATH.items()} for death in deaths_of(properties)
    ] or None


def _sent_at(properties: Properties) -> datetime | None:
    """The time that the publisher gave; None if it is none."""
    try:
        return None if properties.timestamp is None else datetime.fromtimestamp(properties.timestamp, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _property(name: str) -> TableColumn:
    """A property as text."""

    def get(properties: Properties) -> str | None:
        value = getattr(properties, name)
        return None if value is None else readable(value)

    return TableColumn("string", pa.string(), _of_properties(get, pa.string()))


def header(name: str) -> TableColumn:
    """One header as text."""
    return TableColumn(
        "string", pa.string(), _of_header(name, lambda found: (_headers(found) or {}).get(name), pa.string())
    )


MESSAGES: Table = {
    "value": TableColumn("binary", pa.binary(), _value),
    "vhost": TableColumn("string", pa.string(), queue_vhost),
    "queue": TableColumn("string", pa.string(), queue_name),
    "queue_id": TableColumn("bigint", pa.int64(), queue_id),
    "offset": bigint("seq"),
    "exchange": TableColumn("string", pa.string(), _route(0)),
    "routing_key": TableColumn("string", pa.string(), _route(1)),
    "priority": integer("priority"),
    "bytes": bigint("bytes"),
    "enqueued_at": timestamp("enqueued_ms"),
    "due_at": DUE_AT,
    "expires_at": timestamp("expiry_ms"),
    "message_id": _property("message_id"),
    "correlation_id": _property("correlation_id"),
    "content_type": _property("content_type"),
    "content_encoding": _property("content_encoding"),
    "reply_to": _property("reply_to"),
    "expiration": _property("expiration"),
    "type": _property("type"),
    "user_id": _property("user_id"),
    "app_id": _property("app_id"),
    "timestamp": TableColumn("timestamp", TIMESTAMP, _of_properties(_sent_at, TIMESTAMP)),
    "headers": TableColumn("map<string,string>", HEADERS, _of_properties(_headers, HEADERS)),
    "x_death": TableColumn(DEATHS_SPARK, DEATHS, _of_header(DEATH_HEADER, _deaths, DEATHS)),
    "message_group_id": header("x-group-id"),
    "dedup_id": header("x-deduplication-id"),
}


def with_headers(table: Table, included: str) -> Table:
    """A table of which the option `includeHeaders` says whether it has headers, and whether they have types."""
    if included == "true":
        return table
    if included == "typed":
        make = _of_properties(lambda properties: _headers(properties, _typed), TYPED_HEADERS)
        return {**table, "headers": TableColumn(TYPED_HEADERS_SPARK, TYPED_HEADERS, make)}
    if included != "false":
        raise InvalidArgument(f"includeHeaders={included!r}: give true, false or typed")
    return {name: column for name, column in table.items() if name != "headers"}
