"""Messages of a queue: send, look at, cancel, redrive and discard them."""

from dataclasses import asdict
from typing import Any

from leveret.core.errors import InvalidArgument, MessageNotFound
from leveret.protocols.http.async_broker import ANSWER_BYTES_MAX
from leveret.protocols.http.fields import (
    OBJECT,
    Choice,
    Flag,
    JsonField,
    JsonText,
    Listed,
    Name,
    Number,
    RecordField,
    TableField,
    Text,
    Whole,
    array,
    shape,
)
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.rest.operation import DONE, ID_CHARS_MAX, RestCall, RestOperation, routes
from leveret.protocols.rest.shapes import (
    ENQUEUED,
    LOOKED_AT,
    MESSAGE,
    SHORT_CHARS_MAX,
    idempotency_key,
    iso_ms,
    looked_at,
    outgoing,
    trace_context,
)
from leveret.runtime.managed import STATES
from leveret.runtime.outgoing import NAME_CHARS_MAX, IdempotencyKey
from leveret.runtime.queue import RuntimeQueue
from leveret.runtime.redrive import Redrive, filter_of

BATCH_MAX = 1_000
BROWSE_MAX = 1_000
BROWSE_DEFAULT = 100
_TRACE = "The trace that the message belongs to, unless its own headers say so (W3C Trace Context)."
KEY_HELP: dict[str, JsonField] = {
    "Idempotency-Key": Text(
        "A repeated request with the same key sends nothing and gets the same message_id; 422 if the message differs.",
        NAME_CHARS_MAX,
        1,
    ),
    "traceparent": JsonField(_TRACE, type="string"),
    "tracestate": JsonField("What goes with it.", type="string"),
}
NOTICE = "the queue has priorities up to {0}, so {1} counts as {0}: declare it with max_priority"
FULL = "the queue is at its limit: let consumers work, or raise max_length"

CONDITIONS: dict[str, JsonField] = {
    "contains": Text("Only with this text in the body.", 4_096),
    "since": Number("Only sent at this time or later: seconds since 1970.", 0, 1e11),
    "until": Number("Only sent before this time.", 0, 1e11),
    "priority_min": Whole("Only of this priority or higher.", 0, 255),
    "priority_max": Whole("Only of this priority or lower.", 0, 255),
    "group": Text("Only of this group.", 1_024),
    "routing_key": Text("Only with this routing key.", SHORT_CHARS_MAX),
}
HEADERS = TableField("Only with these headers; null: whatever their value.", 32)
ENCODING = Choice("base64: bodies are always payload_base64, byte by byte as they were sent.", "base64")
REDRIVE_S_MAX = 300  # that a redrive with a rate may take: the client waits for it
REDRIVEN_MAX = 10_000_000
SEQ_MAX = (1 << 63) - 1
LIMIT = Whole("How many at most.", 1, REDRIVEN_MAX)
DRY_RUN = Flag("Only count.")
_CONDITIONS: dict[str, JsonField] = {
    **CONDITIONS,
    "headers": HEADERS,
    "message_ids": Listed("Only these.", Text("An id.", ID_CHARS_MAX, 1), 1_000),
    "numbers": Listed("As Spark has them in `offset`.", Whole("A number.", 1, SEQ_MAX), 1_000),
}
_FILTER_HELP = "Conditions, all of which a message must meet."
FILTER = RecordField(_FILTER_HELP, _CONDITIONS)
DISCARD_FILTER = RecordField(_FILTER_HELP, _CONDITIONS, count_min=1, required=True)
OPERATIONS: list[RestOperation] = []
route = routes(OPERATIONS)


def _sent(queue: RuntimeQueue, body: dict[str, Any], message_id: str) -> dict[str, Any]:
    """The answer about a message that was sent."""
    now_ms = queue.runtime.core.engine.now_ms
    delay_s, priority, most = body.get("delay_seconds"), body.get("priority", 0), queue.anyway.policy.max_priority
    delay_ms = queue.anyway.policy.delay_ms if delay_s is None else round(delay_s * 1000)
    enqueued_at = iso_ms(now_ms)
    return {
        "message_id": message_id,
        "queue_name": queue.name,
        "priority": min(priority, most),
        "enqueued_at": enqueued_at,
        "visible_at": iso_ms(now_ms + delay_ms) if delay_ms else enqueued_at,
        **({"notice": NOTICE.format(most, priority)} if priority > most else {}),
    }


@route(
    "POST /queues/{queue}/messages",
    "queue.send",
    {201: ("It is on the disk.", ENQUEUED)},
    body=MESSAGE,
    headers=KEY_HELP,
    keyed=True,
)
def enqueue(call: RestCall) -> Any:
    """Send a message."""
    queue, body = call.queue, call.body
    call.check_user_id(body)
    message = outgoing(body, idempotency_key(call.request, queue), trace_context(call.request))
    return call.async_broker.send(queue, message, lambda sent: json_response(_sent(queue, body, sent), 201))


@route(
    "POST /queues/{queue}/messages/batch",
    "queue.send",
    {
        201: (
            "Those that are not refused are on the disk.",
            shape(
                "messages failed",
                messages=array(),
                failed={"type": "integer", "description": "How many a full queue refused."},
            ),
        )
    },
    body=RecordField("Messages.", {"messages": Listed("Messages.", MESSAGE, BATCH_MAX, required=True)}),
    headers=KEY_HELP,
    keyed=True,
)
def enqueue_many(call: RestCall) -> Any:
    """Send many messages."""
    queue, bodies = call.queue, call.body["messages"]
    call.check_user_id(*bodies)
    key = idempotency_key(call.request, queue)
    context = trace_context(call.request)
    messages = [
        outgoing(body, None if key is None else IdempotencyKey(f"{key}/{number}"), context)
        for number, body in enumerate(bodies)
    ]

    def answer(sent: list[str | None]) -> Response:
        rows = [
            {"error": FULL} if message_id is None else _sent(queue, body, message_id)
            for message_id, body in zip(sent, bodies, strict=True)
        ]
        return json_response({"messages": rows, "failed": sent.count(None)}, 201)

    return call.async_broker.send_many(queue, messages, answer)


@route(
    "GET /queues/{queue}/messages",
    "queue.browse",
    {200: ("Messages in the order of delivery.", shape(messages=array(LOOKED_AT)))},
    query=RecordField(
        "Which messages.",
        {
            "limit": Whole(f"How many; default: {BROWSE_DEFAULT}.", 1, BROWSE_MAX),
            "state": Choice("In which state; default: ready.", *STATES),
            "encoding": ENCODING,
            **CONDITIONS,
            "headers": JsonText(HEADERS),
        },
    ),
)
async def browse(call: RestCall) -> Answer:
    """Look at messages without taking them."""
    query = dict(call.query)
    raw = query.pop("encoding", None) == "base64"
    limit, state = query.pop("limit", BROWSE_DEFAULT), query.pop("state", "ready")
    queue = call.queue

    def look() -> list[dict[str, Any]]:
        return [looked_at(each, raw) for each in queue.browse(limit, state=state, bytes_max=ANSWER_BYTES_MAX, **query)]

    return json_response({"messages": await call.scans.run(look)})


@route(
    "GET /queues/{queue}/scheduled",
    "queue.browse",
    {200: ("Messages.", shape(messages=array(LOOKED_AT)))},
    query=RecordField(
        "How many.", {"limit": Whole(f"Default: {BROWSE_DEFAULT}.", 1, BROWSE_MAX), "encoding": ENCODING}
    ),
)
async def scheduled(call: RestCall) -> Answer:
    """List messages that are scheduled for later, the next one first."""
    queue, raw = call.queue, call.query.get("encoding") == "base64"
    limit = call.query.get("limit", BROWSE_DEFAULT)

    def look() -> list[dict[str, Any]]:
        found = queue.browse(limit, state="scheduled", bytes_max=ANSWER_BYTES_MAX)
        return [looked_at(each, raw) for each in found]

    return json_response({"messages": await call.scans.run(look)})


@route("DELETE /queues/{queue}/scheduled/{message_id}", "queue.discard", DONE)
async def cancel(call: RestCall) -> Answer:
    """Cancel a message that is scheduled for later."""
    queue, message_id = call.queue, call.request.parameters["message_id"]
    if not await call.async_broker.in_thread(lambda: queue.cancel(message_id)):
        raise MessageNotFound(f"no message {message_id} is scheduled in queue '{queue.name}': it may be ready already")
    return Response(204)


@route(
    "POST /queues/{queue}/redrive",
    "queue.redrive",
    {200: ("How many matched, were moved, and could not be moved.", OBJECT)},
    body=RecordField(
        "Which ones, where to, and how fast.",
        {
            "to": Name("The queue that they are moved to."),
            "limit": LIMIT,
            "rate_per_second": Number("How many in a second at most.", 0.01, 1e6),
            "dry_run": DRY_RUN,
            "filter": FILTER,
        },
        needs={"rate_per_second": "limit"},
    ),
    bulk=True,
)
async def redrive(call: RestCall) -> Answer:
    """Move messages to another queue, by default each to the one where it died first."""
    body = call.body
    to, rate, limit = body.get("to"), body.get("rate_per_second"), body.get("limit")
    if to is not None:
        call.authorise("queue.redrive", {**call.names, "destination_queue": to})
    if rate is not None and limit / rate > REDRIVE_S_MAX:
        raise InvalidArgument(
            f"the limit takes over {REDRIVE_S_MAX} seconds at this rate_per_second: lower it, and repeat the call"
        )
    queue, conditions, dry_run = call.queue, conditions_of(body), body.get("dry_run", False)

    def redrives_to(name: str) -> bool:
        return call.allows("queue.redrive", {**call.names, "destination_queue": name})

    chosen = filter_of(queue.tag, conditions)
    redrive = Redrive(queue.runtime, queue.core, to, chosen, limit, rate, dry_run, redrives_to)
    return json_response(asdict(await call.scans.run(lambda: redrive.run(None))))


def conditions_of(body: dict[str, Any]) -> dict[str, Any]:
    """What the filter of a request says, as queues take it."""
    conditions: dict[str, Any] = dict(body.get("filter", {}))
    if "numbers" in conditions:
        conditions["message_ids"] = [*conditions.get("message_ids", ()), *conditions.pop("numbers")]
    return conditions


@route(
    "POST /queues/{queue}/discard",
    "queue.discard",
    {200: ("How many met them.", OBJECT)},
    body=RecordField("Which ones.", {"limit": LIMIT, "dry_run": DRY_RUN, "filter": DISCARD_FILTER}),
    bulk=True,
)
async def discard(call: RestCall) -> Answer:
    """Remove messages that meet conditions, for good."""
    queue, conditions, body = call.queue, conditions_of(call.body), call.body
    limit, dry_run = body.get("limit"), body.get("dry_run", False)
    count = await call.scans.run(lambda: queue.discard(limit=limit, dry_run=dry_run, **conditions))
    return json_response({"matched": count})
