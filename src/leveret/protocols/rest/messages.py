"""POST /queues/{queue}/messages, one or many; GET looks at them."""

from typing import Any

from leveret.embedded.managed import STATES
from leveret.embedded.outgoing import NAME_CHARS_MAX
from leveret.embedded.queue import Queue
from leveret.protocols.http.async_broker import ANSWER_BYTES_MAX
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.rest.fields import (
    Choice,
    JsonField,
    JsonText,
    Listed,
    Number,
    RecordField,
    TableField,
    Text,
    Whole,
)
from leveret.protocols.rest.operation import Answer, Operation, RestCall
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

BATCH_MAX = 1_000
BROWSE_MAX = 1_000
BROWSE_DEFAULT = 100
_TRACE = "The trace that the message belongs to, unless its own headers say so (W3C Trace Context)."
KEY_HELP: dict[str, JsonField] = {
    "Idempotency-Key": Text(
        "A repeated request with the same key sends nothing and gets the same message_id.", NAME_CHARS_MAX, 1
    ),
    "traceparent": JsonField(_TRACE, type="string"),
    "tracestate": JsonField("What goes with it.", type="string"),
}
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


def _sent(queue: Queue, body: dict[str, Any], message_id: str) -> dict[str, Any]:
    """What is told of a message that was sent."""
    now_ms = queue.runtime.core.now_ms
    delay_s = body.get("delay_seconds")
    delay_ms = queue.anyway.policy.delay_ms if delay_s is None else round(delay_s * 1000)
    enqueued_at = iso_ms(now_ms)
    return {
        "message_id": message_id,
        "queue_name": queue.name,
        "priority": body.get("priority", 0),
        "enqueued_at": enqueued_at,
        "visible_at": iso_ms(now_ms + delay_ms) if delay_ms else enqueued_at,
    }


def enqueue(call: RestCall) -> Any:
    """Send a message."""
    queue, body = call.queue, call.body
    call.check_user_id(body)
    message = outgoing(body, idempotency_key(call.request, queue), trace_context(call.request))
    return call.async_broker.send(queue, message, lambda sent: json_response(_sent(queue, body, sent), 201))


def enqueue_many(call: RestCall) -> Any:
    """Send many messages in one commit."""
    queue, bodies = call.queue, call.body["messages"]
    call.check_user_id(*bodies)
    key = idempotency_key(call.request, queue)
    context = trace_context(call.request)
    messages = [
        outgoing(body, None if key is None else f"{key}/{number}", context) for number, body in enumerate(bodies)
    ]

    def answer(sent: list[str | None]) -> Response:
        rows = [
            {"error": FULL} if message_id is None else _sent(queue, body, message_id)
            for message_id, body in zip(sent, bodies, strict=True)
        ]
        return json_response({"messages": rows, "failed": sent.count(None)}, 201)

    return call.async_broker.send_many(queue, messages, answer)


async def browse(call: RestCall) -> Answer:
    """Look at messages."""
    query = dict(call.query)
    raw = query.pop("encoding", None) == "base64"
    limit, state = query.pop("limit", BROWSE_DEFAULT), query.pop("state", "ready")
    queue = call.queue

    def look() -> list[dict[str, Any]]:
        return [looked_at(each, raw) for each in queue.browse(limit, state=state, bytes_max=ANSWER_BYTES_MAX, **query)]

    return json_response({"messages": await call.scans.run(look)})


ENCODING = Choice("base64: bodies are always payload_base64, byte by byte as they were sent.", "base64")
OPERATIONS = (
    Operation(
        "POST",
        "/queues/{queue}/messages",
        "Send a message",
        enqueue,
        "queue.send",
        {201: ("It is on the disk.", ENQUEUED)},
        body=MESSAGE,
        headers=KEY_HELP,
        keyed=True,
    ),
    Operation(
        "POST",
        "/queues/{queue}/messages/batch",
        "Send many messages",
        enqueue_many,
        "queue.send",
        {
            201: (
                "Those that are not refused are on the disk.",
                {
                    "type": "object",
                    "required": ["messages", "failed"],
                    "properties": {
                        "messages": {"type": "array", "items": {"type": "object"}},
                        "failed": {"type": "integer", "description": "How many a full queue refused."},
                    },
                },
            )
        },
        body=RecordField("Messages.", {"messages": Listed("Messages.", MESSAGE, BATCH_MAX, required=True)}),
        headers=KEY_HELP,
        keyed=True,
    ),
    Operation(
        "GET",
        "/queues/{queue}/messages",
        "Look at messages without taking them",
        browse,
        "queue.browse",
        {
            200: (
                "Messages in the order of delivery.",
                {"type": "object", "properties": {"messages": {"type": "array", "items": LOOKED_AT}}},
            )
        },
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
    ),
)
