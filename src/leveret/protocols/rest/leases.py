"""Taking messages and settling them: dequeue, acknowledge, nack, reject, finish, visibility."""

import asyncio
from typing import Any

from leveret.core.browse import read
from leveret.core.deadletter import ORIGIN
from leveret.core.errors import InvalidReceipt, LeveretError, QueueNotFound
from leveret.core.held import Held
from leveret.core.ids import format_id
from leveret.core.names import PROCESSED_SUFFIX, consumer_name
from leveret.protocols.http.fields import OBJECT, Listed, Number, RecordField, Text, Whole, array, shape
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import Refusal
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.rest.messages import ENCODING
from leveret.protocols.rest.operation import DONE, RestCall, RestOperation, routes
from leveret.protocols.rest.shapes import SECONDS_MAX, SHORT_CHARS_MAX, TAKEN, iso_ms, taken
from leveret.runtime.declare import OPTIONS
from leveret.runtime.message import Message, any_stored
from leveret.runtime.processed import Processed
from leveret.runtime.queue import SETTLE, RuntimeQueue
from leveret.runtime.receipts import RECEIPT_CHARS

DEQUEUE_MAX = 100  # messages of one answer, which is in memory at once
WAIT_S_MAX = 60
RECEIPTS_MAX = 1_000
ANY_ID = "-"  # whatever the receipt is for
RECEIPT = Text("The receipt_handle that came with the message.", 2 * RECEIPT_CHARS, 1, required=True)
SECONDS = Number("Until it can be received again, from now on.", 0, SECONDS_MAX)
LEASE_S: float = OPTIONS["visibility_timeout"].default
"""Of a queue without a visibility timeout, as those that AMQP declares."""
_RECEIPT_ONLY = RecordField("Which delivery.", {"receipt_handle": RECEIPT})
_OPTIONAL = Text(RECEIPT.schema["description"], 2 * RECEIPT_CHARS, 1)
WORKER = Text("Whose memory it is.", SHORT_CHARS_MAX, 1, required=True)
OPERATIONS: list[RestOperation] = []
route = routes(OPERATIONS)


@route(
    "POST /queues/{queue}/dequeue",
    "basic.get",
    {200: ("Up to max_messages; none when there is none.", shape("messages", messages=array(TAKEN)))},
    body=RecordField(
        "How many, and for how long.",
        {
            "max_messages": Whole("How many at most; default: 1.", 1, DEQUEUE_MAX),
            "visibility_timeout": Number(
                "Seconds until they can be received again, unless acknowledged; default: as the queue says, or 30.",
                0,
                SECONDS_MAX,
            ),
            "wait_seconds": Number("How long to wait when there is none; default: 0.", 0, WAIT_S_MAX),
            "consumer_id": Text("Who takes them; reports tell how long each took.", SHORT_CHARS_MAX),
            "encoding": ENCODING,
        },
    ),
)
def dequeue(call: RestCall) -> Any:
    """Take messages, the most urgent first."""
    body, queue = call.body, call.queue
    raw, lease_s = body.get("encoding") == "base64", body.get("visibility_timeout")
    if lease_s is None and queue.anyway.policy.lease_ms is None:
        lease_s = LEASE_S  # a client that is gone holds nothing for ever

    def answer(messages: list[Message]) -> Response | list[Message]:
        return messages if any_stored(messages) else _answer(messages, raw)

    found = call.async_broker.receive(
        queue,
        answer,
        body.get("max_messages", 1),
        wait_s=body.get("wait_seconds", 0),
        lease_s=lease_s,
        consumer=consumer_name(call.identity.user, body.get("consumer_id")),
        user=call.identity.user,
    )
    return found if isinstance(found, Response) else _fetched(call, found, raw)


async def _fetched(
    call: RestCall, found: list[Message] | asyncio.Future[Response | list[Message]], raw: bool
) -> Answer:
    """The answer to a request that waited, or with large messages."""
    messages = found if isinstance(found, list) else await found
    if isinstance(messages, Response):
        return messages
    return await call.async_broker.in_thread(lambda: _answer(messages, raw))


def _answer(messages: list[Message], raw: bool) -> Response:
    return json_response({"messages": [taken(each, raw) for each in messages]})


def leased(queue: RuntimeQueue, receipt: str) -> tuple[Held, int]:
    """What a receipt is for. Under the lock."""
    seq, lease = queue.runtime.receipts.read(queue.anyway.id, receipt)
    return queue.core.find_lease(seq, lease), lease


def done_with(queue: RuntimeQueue, receipt: str) -> tuple[Held, int]:
    """The delivery of a receipt, to end its lease; an earlier owner may have made it. Under the lock."""
    try:
        return leased(queue, receipt)
    except InvalidReceipt:
        kept, (seq, _) = queue.runtime.core.kept, queue.runtime.receipts.read(queue.anyway.id, receipt)
        held = None if kept is None else kept(queue.core, seq)
        if held is None:
            raise
        return held, held.lease


def check_id(queue: RuntimeQueue, held: Held, message_id: str) -> None:
    """Refuse a receipt of another message than the path names; a dead letter has the id that it had at first."""
    if message_id in (ANY_ID, format_id(queue.tag, held.seq)):
        return
    origin = (read(held).properties.headers or {}).get(ORIGIN)
    if origin not in (message_id, message_id.encode()):
        raise InvalidReceipt("the receipt is of another message: use the one that came with it")


def _settle(call: RestCall, verb: str, value: Any, answer: Response) -> Any:
    """End or extend a lease; answer when that is on the disk."""
    queue, message_id = call.queue, call.request.parameters["message_id"]
    with queue.runtime as core:
        find = leased if verb == "extend" else done_with
        held, lease = find(queue, call.body["receipt_handle"])
        check_id(queue, held, message_id)
        SETTLE[verb](core, queue.core, held, lease, value)
        commit_batch = queue.runtime.commit()
    return call.async_broker.when_durable(commit_batch, answer)


@route(
    "DELETE /queues/{queue}/messages/{message_id}",
    "queue.settle",
    DONE,
    body=RecordField("Which delivery.", {"receipt_handle": _OPTIONAL}),
    query=RecordField("The same.", {"receipt_handle": _OPTIONAL}),
)
def acknowledge(call: RestCall) -> Any:
    """Acknowledge a message. Clients that cannot send a body with DELETE give the receipt in the query."""
    receipt = call.body.get("receipt_handle", call.query.get("receipt_handle"))
    if receipt is None:
        raise Refusal(400, "receipt_handle is missing: give it in the body or in the query")
    call.body = {"receipt_handle": receipt}
    return _settle(call, "ack", None, Response(204))


@route(
    "POST /queues/{queue}/messages/{message_id}/nack",
    "queue.settle",
    DONE,
    body=RecordField("Which delivery.", {"receipt_handle": RECEIPT, "delay_seconds": SECONDS}),
)
def nack(call: RestCall) -> Any:
    """Requeue a message, to be redelivered later."""
    return _settle(call, "nack", call.body.get("delay_seconds"), Response(204))


@route("POST /queues/{queue}/messages/{message_id}/reject", "queue.settle", DONE, body=_RECEIPT_ONLY)
def reject(call: RestCall) -> Any:
    """Make a message a dead letter."""
    return _settle(call, "reject", None, Response(204))


@route(
    "PATCH /queues/{queue}/messages/{message_id}/visibility",
    "queue.settle",
    {200: ("Until when it is kept.", OBJECT)},
    body=RecordField(
        "Which delivery, and for how long.",
        {
            "receipt_handle": RECEIPT,
            "visibility_timeout": Number(
                "Seconds from now on; 0 gives it back at once.", 0, SECONDS_MAX, required=True
            ),
        },
    ),
)
def change_visibility(call: RestCall) -> Any:
    """Keep a message longer, or give it back."""
    seconds = call.body["visibility_timeout"]
    until_ms = call.async_broker.runtime.clock.now_ms() + round(seconds * 1000)
    kept = {"message_id": call.request.parameters["message_id"], "visible_until": iso_ms(until_ms)}
    return _settle(call, "extend" if seconds else "nack", seconds, json_response(kept))


@route(
    "POST /queues/{queue}/acknowledge",
    "queue.settle",
    {200: ("Those that were still leased are done.", OBJECT)},
    body=RecordField(
        "Which deliveries.",
        {"receipt_handles": Listed("Receipts.", Text("A receipt.", 2 * RECEIPT_CHARS, 1), RECEIPTS_MAX, required=True)},
    ),
)
def acknowledge_many(call: RestCall) -> Any:
    """Acknowledge many messages. The answer names those whose lease had ended."""
    queue = call.queue
    failed = []
    with queue.runtime as core:
        for receipt in call.body["receipt_handles"]:
            try:
                held, lease = done_with(queue, receipt)
                SETTLE["ack"](core, queue.core, held, lease, None)
            except LeveretError as error:
                failed.append({"receipt_handle": receipt, "detail": str(error)})
        commit_batch = queue.runtime.commit()
    count = len(call.body["receipt_handles"]) - len(failed)
    return call.async_broker.when_durable(commit_batch, json_response({"acknowledged": count, "failed": failed}))


def _memory(call: RestCall, name: str) -> Processed:
    """What the workers of that name have done."""
    queue = call.queue
    try:
        memory = call.async_broker.queue(queue.name + PROCESSED_SUFFIX, call.vhost)
    except QueueNotFound:
        needed = f"{queue.name}{PROCESSED_SUFFIX}"
        raise QueueNotFound(f"workers have no memory here: make the queue '{needed}' first") from None
    return Processed(queue, memory, name)


@route(
    "GET /queues/{queue}/processed/{message_id}",
    "queue.settle",
    {200: ("Whether it was.", OBJECT)},
    query=RecordField("Whose memory.", {"worker": WORKER}),
)
def is_processed(call: RestCall) -> Answer:
    """Ask whether a message was handled before."""
    known = _memory(call, call.query["worker"]).knows(call.request.parameters["message_id"])
    return json_response({"processed": known})


@route(
    "POST /queues/{queue}/messages/{message_id}/finish",
    "queue.settle",
    DONE,
    body=RecordField("Which delivery, and who handled it.", {"receipt_handle": RECEIPT, "worker": WORKER}),
)
def finish(call: RestCall) -> Any:
    """Acknowledge a message and remember that it was handled. One commit batch does both; a message whose lease has
    ended is remembered, too.
    """
    queue, message_id, receipt = call.queue, call.request.parameters["message_id"], call.body["receipt_handle"]
    memory = _memory(call, call.body["worker"])
    answer = Response(204)
    with queue.runtime as core:
        seq, _ = queue.runtime.receipts.read(queue.anyway.id, receipt)
        memory.remember(core, message_id, seq)
        try:
            held, lease = done_with(queue, receipt)
            check_id(queue, held, message_id)
            queue.core.ack(held, lease)
        except InvalidReceipt as error:
            answer = problem(error)
        commit_batch = queue.runtime.commit()
    return call.async_broker.when_durable(commit_batch, answer)
