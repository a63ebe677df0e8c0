"""Streams and their records: declare, append, read from any place; whole blocks for readers of very much."""

import re
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from leveret.core.arguments import COUNT_MAX, PARTITIONS_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from leveret.core.consumer_groups import OFFSET_MAX
from leveret.core.errors import InvalidArgument
from leveret.core.jsonable import decode_table, encode
from leveret.protocols.http.fields import (
    OBJECT,
    TEXT,
    WHOLE,
    Flag,
    JsonField,
    Listed,
    Number,
    PatternText,
    RecordField,
    Schema,
    Text,
    Whole,
    array,
    shape,
)
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.http.tails import TailRange, TailRecords, read
from leveret.protocols.rest.leases import WAIT_S_MAX
from leveret.protocols.rest.messages import BATCH_MAX, ENCODING
from leveret.protocols.rest.operation import RestCall, RestOperation, routes
from leveret.protocols.rest.queues import DELETED, DESCRIBED, PAGE, check_room, page
from leveret.protocols.rest.shapes import (
    BODIES,
    BYTES,
    MESSAGE_FIELDS,
    SECONDS_MAX,
    SHORT_CHARS_MAX,
    attributes_of,
    body_of,
    iso_ms,
    payload,
    properties_of,
)
from leveret.runtime.declare import declare_stream
from leveret.runtime.outgoing import PreparedMessage
from leveret.runtime.reading import Place, StreamRecord
from leveret.runtime.stream import (
    BLOCKS_BYTES_MAX,
    Appended,
    PartitionOffsets,
    RuntimeStream,
    blocks,
    offsets,
    stream_arguments,
    streams_of,
)

SETTINGS: dict[str, JsonField] = {
    "partitions": Whole("How many partitions it has, for good; default: 1.", 1, PARTITIONS_MAX),
    "max_age": Number("Seconds after which records may be removed; default: never.", 1, SECONDS_MAX),
    "max_bytes": Whole("What each partition may take before its oldest records go; default: no limit.", 0, COUNT_MAX),
    "segment_bytes": Whole("The size of a file; whole files are removed.", SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
}
_STREAM = shape(
    "name partitions records size_bytes partition_stats",
    partition_stats=array(shape("partition first_offset next_offset records")),
)
READ_RECORDS_MAX = 10_000
READ_BYTES_MAX = 16 << 20
"""An answer is in memory at once, some of it twice."""
READ_RECORDS = 1_000
READ_BYTES = 1 << 20
TIMESTAMP_S_MAX = 1e11
FILTERS_MAX = 16
FILTERS_CHARS_MAX = FILTERS_MAX * (SHORT_CHARS_MAX + 1)
OFFSET = re.compile("first|last|next|[0-9]{1,20}|[0-9]{1,18}[YMDhms]")  # see storage/stream/reader.py
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
_PLACE = shape(
    "partition offset duplicate",
    partition=WHOLE,
    offset={"type": ["integer", "null"], "description": "null when its producer had sent it before."},
    duplicate={"type": "boolean"},
)
_RECORD: dict[str, Schema] = {
    "partition": WHOLE,
    "offset": WHOLE,
    "timestamp": {"type": "string", "format": "date-time"},
    "payload": {},
    "payload_base64": BYTES,
    **dict.fromkeys(("key", "filter", "producer"), TEXT),
    "sequence": WHOLE,
    "attributes": OBJECT,
    "headers": OBJECT,
    "exchange": TEXT,
    "routing_key": TEXT,
}
RECORDS = array(shape("partition offset timestamp routing_key", **_RECORD))
MEDIA_TYPE = "application/vnd.leveret.blocks"
PARTITION_MAX = 1 << 16
AFTER_CHARS_MAX = 32_768
"""Room for a partition and an offset for each of as many partitions as there can be."""
PAIRS = re.compile("[0-9]{1,18}:[0-9]{1,18}(?:,[0-9]{1,18}:[0-9]{1,18})*")
_OFFSETS = shape(
    "id partitions",
    id={**WHOLE, "description": "Of the stream: one that is made anew under its name has another."},
    partitions=array(shape(**dict.fromkeys(PartitionOffsets._fields, WHOLE))),
)
OPERATIONS: list[RestOperation] = []
route = routes(OPERATIONS)


def shown(stream: RuntimeStream) -> dict[str, Any]:
    """A stream."""
    policy = stream.anyway.policy
    figures = asdict(stream.stats())
    rows = figures.pop("partitions")
    age_ms = policy.max_age_ms
    return {
        **figures,
        "partitions": len(rows),
        "max_age": None if age_ms is None else age_ms / 1000,
        "max_bytes": policy.max_length_bytes,
        "segment_bytes": policy.segment_bytes,
        "arguments": encode(stream.anyway.arguments or {}),
        "partition_stats": rows,
    }


@route(
    "GET /streams",
    "stream.list",
    {200: ("Streams; `next` is the `after` of the next page, null at the end.", OBJECT)},
    query=PAGE,
    cluster=DESCRIBED,
)
def list_streams(call: RestCall) -> Answer:
    """List streams."""
    after, prefix = call.query.get("after", ""), call.query.get("prefix", "")
    known = {stream.name: stream for stream in streams_of(call.async_broker.runtime, call.vhost)}
    names = (name for name in known if name > after and name.startswith(prefix))
    return page(call, "streams", names, "queue", lambda name: shown(known[name]))


@route(
    "PUT /streams/{stream}",
    "queue.declare",
    {201: ("It is made.", _STREAM), 200: ("It is there with these settings.", _STREAM)},
    body=RecordField("Its settings.", SETTINGS),
    cluster=DESCRIBED,
)
async def declare(call: RestCall) -> Answer:
    """Make a stream. One that exists with these settings is no error."""
    name, runtime = call.request.parameters["stream"], call.async_broker.runtime
    with runtime as core:
        queues = core.topology.vhost(call.vhost).queues
        known = name in queues
        if not known:
            check_room(call, len(queues))
    arguments = stream_arguments(**call.body)
    made = await call.async_broker.durably(lambda: declare_stream(runtime, name, arguments, call.vhost))
    return json_response(shown(RuntimeStream(runtime, made)), 200 if known else 201)


@route("GET /streams/{stream}", "queue.look", {200: ("The stream.", _STREAM)})
def get(call: RestCall) -> Answer:
    """Look at a stream."""
    return json_response(shown(call.stream))


@route("DELETE /streams/{stream}", "queue.delete", {200: ("How many records it had.", OBJECT)}, cluster=DELETED)
async def delete(call: RestCall) -> Answer:
    """Delete a stream with its records and groups."""
    return json_response({"deleted": await call.async_broker.in_thread(call.stream.delete)})


def _prepared(stream: RuntimeStream, body: dict[str, Any]) -> PreparedMessage:
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


@route("POST /streams/{stream}/records", "stream.append", {201: ("It is on the disk.", _PLACE)}, body=RECORD)
def append(call: RestCall) -> Any:
    """Append a record."""
    call.check_user_id(call.body)
    commit_batch, sent = call.stream.post([_prepared(call.stream, call.body)])
    return call.async_broker.when_durable(commit_batch, json_response(_row(sent[0]), 201))


@route(
    "POST /streams/{stream}/records/batch",
    "stream.append",
    {201: ("They are on the disk.", shape("records", records=array(_PLACE)))},
    body=RecordField("Records.", {"records": Listed("Records.", RECORD, BATCH_MAX, required=True)}),
)
def append_many(call: RestCall) -> Any:
    """Append many records."""
    call.check_user_id(*call.body["records"])
    stream = call.stream
    commit_batch, sent = stream.post([_prepared(stream, body) for body in call.body["records"]])
    return call.async_broker.when_durable(commit_batch, json_response({"records": [_row(each) for each in sent]}, 201))


# Reading


def record_shown(record: StreamRecord, raw: bool) -> dict[str, Any]:
    """A record that was read."""
    properties = record.properties
    row = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": iso_ms(record.timestamp_ms),
        **payload(record.data, properties.content_type, raw),
    }
    optional = {
        "key": record.key,
        "filter": record.filter,
        "producer": record.producer,
        "sequence": record.sequence,
        "attributes": attributes_of(properties) or None,
        "headers": encode(properties.headers) if properties.headers else None,
        "exchange": record.exchange or None,
        "routing_key": record.routing_key,
    }
    return {**row, **{name: value for name, value in optional.items() if value is not None}}


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
    if "offset" in query and "timestamp" in query:
        raise InvalidArgument("offset and timestamp both say where to begin: give one of them")
    if "timestamp" in query:
        return moment(query["timestamp"])
    offset: str = query.get("offset", "first")
    return int(offset) if offset.isascii() and offset.isdigit() else offset


def moment(seconds: float) -> datetime:
    """A time as requests tell it: seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


@route(
    "GET /streams/{stream}/records",
    "stream.read",
    {
        200: (
            "Records in their order; `next_offset` is the `offset` of the next request.",
            shape("records next_offset", records=RECORDS, next_offset=WHOLE),
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
)
async def read_records(call: RestCall) -> Answer:
    """Read a partition from any place."""
    stream, query = call.stream, call.query
    partition = stream.check_partition(query.get("partition", 0))
    wanted, wait_s = range_of(query, {partition: _place(query)}), query.get("wait_seconds", 0)
    found = await read(call.async_broker, stream, wanted, wait_s, call.identity.user)
    return await answer(call, found, query, next_offset=found.offsets[partition])


async def answer(call: RestCall, found: TailRecords, options: dict[str, Any], **facts: Any) -> Response:
    """What was read, as JSON."""
    raw = options.get("encoding") == "base64"

    def made() -> Response:
        return json_response({"records": [record_shown(each, raw) for each in found.records], **facts})

    # Many records take a while: others are answered meanwhile.
    return await call.async_broker.in_thread(made) if found.records else made()


@route(
    "GET /queues/{queue}/offsets",
    "stream.read",
    {200: ("The oldest and the next offset of each partition.", _OFFSETS)},
    query=RecordField(
        "What else is wanted.",
        {
            "timestamp_ms": Whole("`at`: the offset of the first record of this time or later.", 0, OFFSET_MAX),
            "after": PatternText(
                "`reach`: begin at these offsets of these partitions, such as 0:42,1:17.",
                PAIRS,
                "a partition and an offset for some partitions, such as 0:42,1:17",
                AFTER_CHARS_MAX,
            ),
            "bytes": Whole("`reach`: the offset after about so many bytes.", 1, OFFSET_MAX),
        },
    ),
)
async def show_offsets(call: RestCall) -> Answer:
    """Look at the offsets of a stream."""
    queue, query = call.queue, call.query
    after = _pairs(query["after"]) if "after" in query else None
    rows = await call.async_broker.in_thread(
        lambda: offsets(queue.core, query.get("timestamp_ms"), after, query.get("bytes"))
    )
    partitions = [{name: value for name, value in row._asdict().items() if value is not None} for row in rows]
    return json_response({"id": queue.anyway.id, "partitions": partitions})


def _pairs(text: str) -> dict[int, int]:
    """Partitions and offsets, as in 0:42,1:17."""
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


@route(
    "GET /queues/{queue}/blocks",
    "stream.read",
    {
        200: (
            "Whole blocks: the first may begin before the offset, the last may go on after the end.",
            {"type": "string", "contentMediaType": MEDIA_TYPE},
        )
    },
    query=RecordField(
        "Which records.",
        {
            "partition": Whole("Of which partition; default: 0.", 0, PARTITION_MAX),
            "offset": Whole("From this offset on.", 0, OFFSET_MAX, required=True),
            "end": Whole("Up to before this offset.", 0, OFFSET_MAX),
            "bytes": Whole("About how many at most.", 1, BLOCKS_BYTES_MAX),
        },
    ),
)
async def read_blocks(call: RestCall) -> Answer:
    """Read records of a stream as they lie in the log, many at a time."""
    queue, query = call.queue, call.query
    size = query.get("bytes", BLOCKS_BYTES_MAX)
    partition, offset, end = query.get("partition", 0), query["offset"], query.get("end", OFFSET_MAX)
    runtime = call.async_broker.runtime
    data = await call.async_broker.in_thread(lambda: blocks(runtime, queue.core, partition, offset, end, size))
    return Response(200, data, MEDIA_TYPE)
