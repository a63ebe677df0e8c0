"""/sinks: batches of many messages that are published as a whole and once, as the Spark connector writes them."""

from leveret.core.errors import InvalidArgument, NotSupported
from leveret.ingest.commit_log import CommittedPart, Sink
from leveret.ingest.rows import RowDestination
from leveret.ingest.sinks import Order, Sinks, answer
from leveret.ingest.staging import PIECES_MAX
from leveret.protocols.http.cluster import InCluster, Parts
from leveret.protocols.http.fields import WHOLE, Choice, Flag, Listed, Name, RecordField, Text, Whole, array, shape
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.rest.operation import DONE, SINK_CHARS_MAX, RestCall, RestOperation, part_name, routes

PARTS_MAX = 10_000  # all of them are named in one entry of the journal
ROWS_MAX = 1 << 40
_BATCH = shape(
    "batch state rows done dropped",
    batch=WHOLE,
    state={"type": "string", "enum": ["publishing", "published"]},
    rows=WHOLE,
    done={"type": "integer", "description": "How many of them are published or dropped."},
    dropped={"type": "integer", "description": "How many of them no queue took."},
)
_SHARE = {"part": part_name(required=True), "pieces": Whole("How many.", 0, PIECES_MAX, required=True)}
OPERATIONS: list[RestOperation] = []
route = routes(OPERATIONS)


@route(
    "PUT /sinks/{sink}/parts/{part}/{piece}",
    "ingest.stage",
    {201: ("It is on the disk.", shape(rows=WHOLE))},
    upload="Rows in columns, in the format of leveret/ingest/row_groups.py.",
)
async def put(call: RestCall) -> Answer:
    """Stage a piece of a part of a batch; the same one again takes its place."""
    part, piece = call.parameters["part"], call.parameters["piece"]
    rows = await _sinks(call).put(sink_of(call), part, piece, call.request.body, lambda each: _allow_name(call, each))
    return json_response({"rows": rows}, 201)


@route(
    "POST /sinks/{sink}/batches/{batch}",
    "ingest.stage",
    {200: ("All of it is published.", _BATCH), 202: ("It is being published: ask again.", _BATCH)},
    body=RecordField(
        "The parts that won.",
        {
            "parts": Listed(
                "In the order in which they are published.", RecordField("A part.", _SHARE), PARTS_MAX, 0, required=True
            ),
            "rows": Whole("How many rows they have together.", 0, ROWS_MAX, required=True),
            "origin": Text("Which query it is: another one is refused the same batch.", SINK_CHARS_MAX),
            "once": Flag("The sink has no other batch, and may be forgotten after a while."),
            "queue": Name("The queue or stream of all rows: may be checked without rows."),
            "exchange": Name("The exchange of all rows, likewise."),
            "unroutable": Choice("What to do if a row would reach no queue; default: refuse.", "refuse", "drop"),
        },
    ),
)
async def commit(call: RestCall) -> Answer:
    """Publish a batch of staged parts, all of it and once; asked again, answer as before."""
    body = call.body
    order = Order(
        sink_of(call),
        call.parameters["batch"],
        tuple(CommittedPart(each["part"], each["pieces"]) for each in body["parts"]),
        body["rows"],
        body.get("origin", ""),
        body.get("once", False),
        body.get("unroutable", "refuse"),
    )
    if len({share.part for share in order.shares}) < len(order.shares):
        raise InvalidArgument("a part is named twice: name each once")
    if "queue" in body:
        call.authorise("queue.send", {"queue": body["queue"]})
    if "exchange" in body:
        call.authorise("basic.publish", {"exchange": body["exchange"]})
    batch = await _sinks(call).commit(order, lambda each: _allow(call, each))
    return json_response(answer(batch), 200 if batch.published else 202)


@route(
    "POST /sinks/{sink}/abort",
    "ingest.stage",
    DONE,
    body=RecordField("Which ones.", {"parts": Listed("Parts.", part_name(), PARTS_MAX, 0, required=True)}),
)
async def abort(call: RestCall) -> Answer:
    """Drop staged parts; what was committed stays."""
    await _sinks(call).abort(sink_of(call), call.body["parts"])
    return Response(204)


def sinks_of_all(call: RestCall, parts: Parts) -> Answer:
    """The sinks of all shards: one without queues may have sinks."""
    rows = [row for each in parts.values.values() for row in each["sinks"]]
    return json_response({"sinks": sorted(rows, key=lambda row: row["name"])})


@route(
    "GET /sinks",
    "ingest.list",
    {200: ("Sinks.", shape(sinks=array()))},
    cluster=InCluster(
        scatter=lambda call: dict.fromkeys(call.cluster.all_shard_ids(), call.request), merge=sinks_of_all
    ),
)
def list_all(call: RestCall) -> Answer:
    """List your sinks and their last batches."""
    return json_response({"sinks": list(_sinks(call).described(call.vhost, call.owner))})


@route("DELETE /sinks/{sink}", "ingest.forget", DONE)
async def delete(call: RestCall) -> Answer:
    """Forget a sink that no query uses any more."""
    await _sinks(call).delete(sink_of(call))
    return Response(204)


def _sinks(call: RestCall) -> Sinks:
    """The sinks of the server."""
    if call.sinks is None:
        raise NotSupported("this broker is in memory and has nowhere to stage batches: give it a data directory")
    return call.sinks


def sink_of(call: RestCall) -> Sink:
    """The sink that the path names: each user has its own."""
    return Sink(call.vhost, call.owner, call.parameters["sink"])


def _allow_name(call: RestCall, destination: RowDestination) -> None:
    _allow(call, destination, with_key=False)


def _allow(call: RestCall, destination: RowDestination, with_key: bool = True) -> None:
    if destination.queue is not None:
        call.authorise("queue.send", {"queue": destination.queue})
    else:
        call.authorise(
            "basic.publish", {"exchange": destination.exchange}, [destination.routing_key] if with_key else []
        )
