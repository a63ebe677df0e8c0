"""/streams: list, make, look at, delete."""

from dataclasses import asdict
from typing import Any

from leveret.core.arguments import COUNT_MAX, PARTITIONS_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from leveret.core.jsonable import encode
from leveret.embedded.stream import Stream
from leveret.protocols.http.response import json_response
from leveret.protocols.rest.fields import JsonField, Number, RecordField, Whole
from leveret.protocols.rest.operation import Answer, Operation, RestCall
from leveret.protocols.rest.queues import LIST_DEFAULT, PAGE, check_room
from leveret.protocols.rest.shapes import SECONDS_MAX

SETTINGS: dict[str, JsonField] = {
    "partitions": Whole("How many partitions it has, for good; default: 1.", 1, PARTITIONS_MAX),
    "max_age": Number("Seconds after which records may be removed; default: never.", 1, SECONDS_MAX),
    "max_bytes": Whole("What each partition may take before its oldest records go; default: no limit.", 0, COUNT_MAX),
    "segment_bytes": Whole("The size of a file; whole files are removed.", SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
}


def shown(stream: Stream) -> dict[str, Any]:
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


def list_streams(call: RestCall) -> Answer:
    """The streams that the caller may use, by name."""
    limit, after = call.query.get("limit", LIST_DEFAULT), call.query.get("after", "")
    prefix = call.query.get("prefix", "")
    rows: list[dict[str, Any]] = []
    for stream in call.async_broker.broker.streams(call.vhost):
        name = stream.name
        if name > after and name.startswith(prefix) and call.allows("queue.see", {"queue": name}):
            if len(rows) == limit:
                return json_response({"streams": rows, "next": rows[-1]["name"]})
            rows.append(shown(stream))
    return json_response({"streams": rows, "next": None})


async def declare(call: RestCall) -> Answer:
    """Make a stream; one that exists with these settings is no error."""
    name, broker = call.request.parameters["stream"], call.async_broker.broker
    with call.async_broker.runtime as core:
        queues = core.topology.vhost(call.vhost).queues
        known = name in queues
        if not known:
            check_room(call, len(queues))
    stream = await call.async_broker.in_thread(lambda: broker.stream(name, vhost=call.vhost, **call.body))
    return json_response(shown(stream), 200 if known else 201)


def get(call: RestCall) -> Answer:
    """One stream."""
    return json_response(shown(call.stream))


async def delete(call: RestCall) -> Answer:
    """Delete a stream."""
    return json_response({"deleted": await call.async_broker.in_thread(call.stream.delete)})


_STREAM = {
    "type": "object",
    "required": ["name", "partitions", "records", "size_bytes", "partition_stats"],
    "properties": {
        "partition_stats": {
            "type": "array",
            "items": {"type": "object", "required": ["partition", "first_offset", "next_offset", "records"]},
        }
    },
}
OPERATIONS = (
    Operation(
        "GET",
        "/streams",
        "List streams",
        list_streams,
        "vhost.list",
        {200: ("Streams; `next` is the `after` of the next page, null at the end.", {"type": "object"})},
        query=PAGE,
    ),
    Operation(
        "PUT",
        "/streams/{stream}",
        "Make a stream",
        declare,
        "queue.declare",
        {201: ("It is made.", _STREAM), 200: ("It is there with these settings.", _STREAM)},
        body=RecordField("Its settings.", SETTINGS),
        audited=True,
    ),
    Operation("GET", "/streams/{stream}", "Look at a stream", get, "queue.look", {200: ("The stream.", _STREAM)}),
    Operation(
        "DELETE",
        "/streams/{stream}",
        "Delete a stream with its records and groups",
        delete,
        "queue.delete",
        {200: ("How many records it had.", {"type": "object"})},
        audited=True,
    ),
)
