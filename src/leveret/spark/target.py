"""Where a DataFrame is written to: the options of `df.write.format("leveret")`, checked on the driver.

url                   the server, http://HOST:PORT or https://HOST:PORT; a user and a password may be in it; or
                      nodes of a cluster, separated by commas
token                 an API key or web token; default: the user in the URL
caFile                certificates that the server is checked against, on every machine that runs tasks
certFile, keyFile     the certificate that the client shows, and its key, there, too
vhost                 the virtual host, / unless told otherwise
requestTimeout        how long one request may take, 60s unless told otherwise
sinkId                what batches of this query are known by; default: made of the checkpoint, or new for each write
unroutable            `refuse` (default): nothing of a batch is published if a row would reach no queue; `drop`
commitTimeout         seconds for which a commit may make no progress, 600 unless told otherwise

queue, exchange, routingKey, contentType, contentEncoding, priority, delayMs, ttlMs, messageGroupId, correlationId,
replyTo, type and appId say the same of all rows. The DataFrame has `value`, and any of the columns of COLUMNS.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from leveret.client.servers import servers_of
from leveret.core.errors import InvalidArgument
from leveret.ingest.row_groups import COLUMNS
from leveret.spark.messages import HEADER_TYPES
from leveret.spark.options import check_names
from leveret.spark.server import Origin

OF_ALL_ROWS = (
    "queue",
    "exchange",
    "routing_key",
    "content_type",
    "content_encoding",
    "priority",
    "delay_ms",
    "ttl_ms",
    "message_group_id",
    "correlation_id",
    "reply_to",
    "type",
    "app_id",
)
TEXT_TYPE = "text/plain; charset=utf-8"
COMMIT_S = 600.0
WHOLE = (ByteType, ShortType, IntegerType, LongType)
KINDS: dict[str, tuple[type[DataType], ...]] = {
    "text": (StringType,),
    "number": WHOLE,
    "bytes": (BinaryType, StringType),
}
HEADER_VALUES = (StringType, BooleanType, *WHOLE, FloatType, DoubleType, BinaryType, TimestampType)


@dataclass(frozen=True)
class SinkTarget:
    """A sink on a server; goes with every task."""

    server: Origin
    sink: str
    origin: str
    once: bool
    unroutable: str
    commit_s: float
    constants: dict[str, str | int]
    destination: dict[str, str]
    """The queue or exchange of all rows, if there is one: the server checks it for batches without rows, too."""

    def __repr__(self) -> str:
        return f"<Target {self.sink!r}>"


def batch_target(options: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkTarget:
    """The target of one write; each has a sink of its own, so that whatever Spark repeats is one batch."""
    if overwrite:
        raise InvalidArgument("what was sent cannot be overwritten: use mode('append')")
    return _target(options, schema, options.get("sinkid") or f"batch-{secrets.token_hex(16)}", "", once=True)


def stream_target(options: Mapping[str, str], schema: StructType) -> SinkTarget:
    """The target of a streaming query; its checkpoint makes its batches different from those of any other."""
    place = options.get("checkpointlocation")
    sink = options.get("sinkid")
    if place is None and sink is None:
        raise InvalidArgument("name the sink by the option sinkId, or the checkpoint by checkpointLocation")
    told = f"{options.get('queryname', '')}\0{_checkpoint(place or '')}"
    origin = blake2b(told.encode(), digest_size=16).hexdigest()
    return _target(options, schema, sink or f"stream-{origin}", origin if place else "", once=False)


def _checkpoint(place: str) -> str:
    """What a checkpoint is known by: the id that Spark gave it if it can be read here, or its place."""
    parts = urlsplit(place)
    if parts.scheme in ("", "file"):
        try:
            return str(json.loads((Path(unquote(parts.path)) / "metadata").read_bytes())["id"])
        except (OSError, ValueError, KeyError):
            return place
    return place


def _target(options: Mapping[str, str], schema: StructType, sink: str, origin: str, once: bool) -> SinkTarget:
    check_names(options, "sink")
    if not options.get("url"):
        raise InvalidArgument("no server was given: name it by the option url, such as http://127.0.0.1:15672")
    server = Origin.of(options)
    servers_of(server.url, server.token, None)  # what is wrong with it is told before tasks are started
    unroutable = options.get("unroutable", "refuse")
    if unroutable not in ("refuse", "drop"):
        raise InvalidArgument(f"unroutable={unroutable!r}: give refuse or drop")
    constants = _constants(options)
    _check(schema, constants)
    if isinstance(schema["value"].dataType, StringType) and "content_type" not in schema.names:
        constants.setdefault("content_type", TEXT_TYPE)
    commit_s = _number("commitTimeout", options.get("committimeout"), COMMIT_S)
    whole = _whole_destination(schema, constants)
    return SinkTarget(server, sink, origin, once, unroutable, commit_s, constants, whole)


def _whole_destination(schema: StructType, constants: Mapping[str, str | int]) -> dict[str, str]:
    """The queue of all rows, or their exchange; a queue of a row comes before the exchange of all rows."""
    for name in ("queue",) if "queue" in schema.names else ("queue", "exchange"):
        if constants.get(name):
            return {name: str(constants[name])}
    return {}


def _constants(options: Mapping[str, str]) -> dict[str, str | int]:
    """What options say of all rows."""
    found: dict[str, str | int] = {}
    for name in OF_ALL_ROWS:
        text = options.get(name.replace("_", ""))
        if text is not None:
            is_number = COLUMNS[name].kind == "number"
            found[name] = int(_number(name, text, 0)) if is_number else text
            if is_number and not 0 <= int(found[name]) <= COLUMNS[name].most:
                raise InvalidArgument(f"{name}={text!r}: give a number from 0 to {COLUMNS[name].most}")
    return found


def _check(schema: StructType, constants: Mapping[str, str | int]) -> None:
    """Refuse columns that have no meaning, or the wrong type."""
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise InvalidArgument(f"column {field.name!r} has no meaning: select only {', '.join(COLUMNS)}")
        if field.name in constants:
            raise InvalidArgument(f"{field.name} is an option and a column: give one of them")
        if not _fits(field.name, field.dataType):
            raise InvalidArgument(f"column {field.name!r} is of the type {field.dataType.simpleString()}: cast it")
    if "value" not in schema.names:
        raise InvalidArgument("there is no column 'value': name the one with the bodies so, as binary or string")
    if not {"queue", "exchange", "routing_key"} & (set(schema.names) | constants.keys()):
        raise InvalidArgument("rows need somewhere to go: give a queue or an exchange, as an option or a column")


def _fits(name: str, kind: DataType) -> bool:
    """Whether Spark's type is one that a column may have."""
    if name == "headers":
        if not isinstance(kind, MapType) or not isinstance(kind.keyType, StringType):
            return False
        told = kind.valueType
        if not isinstance(told, StructType):
            return isinstance(told, HEADER_VALUES)
        typed = {name: each.spark for name, each in HEADER_TYPES.items()}
        return all(typed.get(field.name) == field.dataType.simpleString() for field in told.fields)
    if name == "timestamp" and isinstance(kind, TimestampType):
        return True
    return isinstance(kind, KINDS["bytes" if name == "key" else COLUMNS[name].kind])


def _number(name: str, text: str | None, default: float) -> float:
    """A number in an option."""
    try:
        return default if text is None else float(text)
    except ValueError:
        raise InvalidArgument(f"{name}={text!r}: give a number") from None
