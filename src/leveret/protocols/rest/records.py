"""/streams/{stream}/records: append one or many, read from any place."""

import re
from datetime import UTC, datetime
from typing import Any

from leveret.core.arguments import PARTITIONS_MAX
from leveret.core.consumer_groups import OFFSET_MAX
from leveret.core.errors import InvalidArgument
from leveret.core.jsonable import decode_table, encode
from leveret.embedded.outgoing import PreparedMessage
from leveret.embedded.records import Place, StreamRecord
from leveret.embedded.stream import Appended, Stream
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.http.tails import TailRange, TailRecords, read
from leveret.protocols.rest.fields import Flag, JsonField, Listed, Number, PatternText, RecordField, Schema, Text, Whole
from leveret.protocols.rest.leases import WAIT_S_MAX
from leveret.protocols.rest.messages import BATCH_MAX, ENCODING
from leveret.protocols.rest.operation import Answer, Operation, RestCall
from leveret.protocols.rest.shapes import (
    BODIES,
    MESSAGE_FIELDS,
    SHORT_CHARS_MAX,
    attributes_of,
    body_of,
    iso_ms,
    payload,
    properties_of,
)

READ_RECORDS_MAX = 10_000
READ_BYTES_MAX = 16 << 20
"""An answer is in memory at once, some of it twice."""
READ_RECORDS = 1_000
READ_BYTES = 1 << 20
TIMESTAMP_S_MAX = 1e11
FILTERS_MAX = 16
FILTERS_CHARS_MAX = FILTERS_MAX * (SHORT_CHARS_MAX + 1)
OFFSET = re.compile("first|last|next|[0-9]{1,20}|[0-9]{1,18}[YMDhms]")  # see storage/stream/starts.py
FILTERS = re.compile(f"[^,]*(?:,[^,]*){{0,{FILTERS_MAX - 1}}}")

RECORD = RecordField(
    "A record.",
    {
        **{name: MESSAGE_FIELDS[name] for name in ("payload", "payload_base64", "attributes", "headers")},
        "key": Text("Records with the same key are in the same partition, in their order.", SHORT_CHARS_MAX, 1),
        "producer": Text("The producer that numbers its records, so that none is there twice.", SHORT_CHARS_MAX, 1),
        "sequence": Whole("The number of the record; each one is higher than the one before.", 0, OFFSET_MAX),
        "filter": Text("A value that readers can ask for.", SHORT_CHARS_MAX, 1),
    },
    BODIES,
    {"producer": "sequence", "sequence": "producer"},
)
LIMITS: dict[str, JsonField] = {
    "max_records": Whole(f"How many at most; default: {READ_RECORDS}.", 1, READ_RECORDS_MAX),
    "max_bytes": Whole(f"About how many bytes of bodies at most; default: {READ_BYTES}.", 1, READ_BYTES_MAX),
    "wait_seconds": Number("How long to wait when there is none yet; default: 0.", 0, WAIT_S_MAX),
    "encoding": ENCODING,
}


# Appending


def _prepared(stream: Stream, body: dict[str, Any]) -> PreparedMessage:
    """A record, checked and converted."""
    properties, headers = properties_of(body), body.get("headers")
    options = {name: body[name] for name in ("key", "producer", "sequence", "filter") if name in body}
    return stream.prepare(
        body_of(body, properties),
        headers=decode_table("headers", headers) if headers else None,
        properties=properties,
        **options,
    )


def _row(appended: Appended) -> dict[str, Any]:
    return {"partition": appended.partition, "offset": appended.offset, "duplicate": appended.offset is None}


def append(call: RestCall) -> Any:
    """Append a record."""
    call.check_user_id(call.body)
    commit_batch, sent = call.stream.post([_prepared(call.stream, call.body)])
    return call.async_broker.when_durable(commit_batch, json_response(_row(sent[0]), 201))


def append_many(call: RestCall) -> Any:
    """Append many records in one commit."""
    call.check_user_id(*call.body["records"])
    stream = call.stream
    commit_batch, sent = stream.post([_prepared(stream, body) for body in call.body["records"]])
    return call.async_broker.when_durable(commit_batch, json_response({"records": [_row(each) for each in sent]}, 201))


# Reading


def shown(record: StreamRecord, raw: bool) -> dict[str, Any]:
    """A record that was read."""
    properties = record.properties
    row = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": iso_ms(record.timestamp_ms),
        **payload(record.data, properties.content_type, raw),
    }
    told = {
        "key": record.key,
        "filter": record.filter,
        "producer": record.producer,
        "sequence": record.sequence,
        "attributes": attributes_of(properties) or None,
        "headers": encode(properties.headers) if properties.headers else None,
        "exchange": record.exchange or None,
        "routing_key": record.routing_key,
    }
    return {**row, **{name: value for name, value in told.items() if value is not None}}


def range_of(options: dict[str, Any], places: dict[int, Place]) -> TailRange:
    """What a request wants to read, from these places on."""
    filters = options.get("filters")
    return TailRange(
        places,
        options.get("max_records", READ_RECORDS),
        options.get("max_bytes", READ_BYTES),
        None if filters is None else filters.split(","),
        options.get("match_unfiltered", False),
    )


def _place(query: dict[str, Any]) -> Place:
    """Where one who reads begins."""
    if "offset" in query and "timestamp" in query:
        raise InvalidArgument("offset and timestamp both say where to begin: give one of them")
    if "timestamp" in query:
        return moment(query["timestamp"])
    offset: str = query.get("offset", "first")
    return int(offset) if offset.isascii() and offset.isdigit() else offset


def moment(seconds: float) -> datetime:
    """A time as requests tell it: seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


async def read_records(call: RestCall) -> Answer:
    """Records of one partition, or wait for some."""
    stream, query = call.stream, call.query
    partition = stream.check_partition(query.get("partition", 0))
    wanted, wait_s = range_of(query, {partition: _place(query)}), query.get("wait_seconds", 0)
    found = await read(call.async_broker, stream, wanted, wait_s, call.identity.user)
    return await answer(call, found, query, next_offset=found.offsets[partition])


async def answer(call: RestCall, found: TailRecords, options: dict[str, Any], **facts: Any) -> Response:
    """What was read, as JSON."""
    raw = options.get("encoding") == "base64"

    def made() -> Response:
        return json_response({"records": [shown(each, raw) for each in found.records], **facts})

    # Many records take a while: others are answered meanwhile.
    return await call.async_broker.in_thread(made) if found.records else made()


_PLACE: Schema = {
    "type": "object",
    "required": ["partition", "offset", "duplicate"],
    "properties": {
        "partition": {"type": "integer"},
        "offset": {"type": ["integer", "null"], "description": "null when its producer had sent it before."},
        "duplicate": {"type": "boolean"},
    },
}
_RECORD: Schema = {
    "type": "object",
    "required": ["partition", "offset", "timestamp", "routing_key"],
    "properties": {
        "partition": {"type": "integer"},
        "offset": {"type": "integer"},
        "timestamp": {"type": "string", "format": "date-time"},
        "payload": {},
        "payload_base64": {"type": "string", "contentEncoding": "base64"},
        "key": {"type": "string"},
        "filter": {"type": "string"},
        "producer": {"type": "string"},
        "sequence": {"type": "integer"},
        "attributes": {"type": "object"},
        "headers": {"type": "object"},
        "exchange": {"type": "string"},
        "routing_key": {"type": "string"},
    },
}
RECORDS: Schema = {"type": "array", "items": _RECORD}
OPERATIONS = (
    Operation(
        "POST",
        "/streams/{stream}/records",
        "Append a record",
        append,
        "stream.append",
        {201: ("It is on the disk.", _PLACE)},
        body=RECORD,
    ),
    Operation(
        "POST",
        "/streams/{stream}/records/batch",
        "Append many records",
        append_many,
        "stream.append",
        {
            201: (
                "They are on the disk.",
                {
                    "type": "object",
                    "required": ["records"],
                    "properties": {"records": {"type": "array", "items": _PLACE}},
                },
            )
        },
        body=RecordField("Records.", {"records": Listed("Records.", RECORD, BATCH_MAX, required=True)}),
    ),
    Operation(
        "GET",
        "/streams/{stream}/records",
        "Read a partition from any place",
        read_records,
        "stream.read",
        {
            200: (
                "Records in their order; `next_offset` is the `offset` of the next request.",
                {
                    "type": "object",
                    "required": ["records", "next_offset"],
                    "properties": {"records": RECORDS, "next_offset": {"type": "integer"}},
                },
            )
        },
        query=RecordField(
            "From where, and how much.",
            {
                "partition": Whole("Default: 0.", 0, PARTITIONS_MAX - 1),
                "offset": PatternText(
                    "An offset, first, last, next, or how long ago, such as 1h; default: first.",
                    OFFSET,
                    "an offset, first, last, next, or how long ago, such as 1h",
                    20,
                ),
                "timestamp": Number("In place of offset: seconds since 1970.", 0, TIMESTAMP_S_MAX),
                "filters": PatternText(
                    "Only records with one of these filter values, comma-separated.",
                    FILTERS,
                    f"up to {FILTERS_MAX} values with commas between them",
                    FILTERS_CHARS_MAX,
                ),
                "match_unfiltered": Flag("Those without a filter value too."),
                **LIMITS,
            },
        ),
    ),
)
