"""What a worker has done, remembered beside its queue: so a message that comes again is not handled again."""

from typing import Any

from leveret.core.errors import InvalidReceipt, QueueNotFound
from leveret.core.names import PROCESSED_SUFFIX
from leveret.embedded.processed import Processed
from leveret.protocols.http.problem import problem
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.rest.fields import RecordField, Text
from leveret.protocols.rest.leases import DONE, RECEIPT, check_id, done_with
from leveret.protocols.rest.operation import Answer, Operation, RestCall
from leveret.protocols.rest.shapes import SHORT_CHARS_MAX

WORKER = Text("Whose memory it is.", SHORT_CHARS_MAX, 1, required=True)


def _memory(call: RestCall, name: str) -> Processed:
    """What the workers of that name have done."""
    queue = call.queue
    try:
        memory = call.async_broker.queue(queue.name + PROCESSED_SUFFIX, call.vhost)
    except QueueNotFound:
        raise QueueNotFound(
            f"workers have no memory here: make the queue '{queue.name}{PROCESSED_SUFFIX}' first"
        ) from None
    return Processed(queue, memory, name)


def is_processed(call: RestCall) -> Answer:
    """Whether a worker has handled a message."""
    known = _memory(call, call.query["worker"]).knows(call.request.parameters["message_id"])
    return json_response({"processed": known})


def finish(call: RestCall) -> Any:
    """Remember that a message was handled and acknowledge it, in one commit batch; remember it also if its lease
    has ended.
    """
    queue, message_id, receipt = call.queue, call.request.parameters["message_id"], call.body["receipt_handle"]
    memory = _memory(call, call.body["worker"])
    answer = Response(204)
    with queue.runtime as core:
        seq, _ = queue.broker.receipts.read(queue.anyway.id, receipt)
        memory.remember(core, message_id, seq)
        try:
            held, lease = done_with(queue, receipt)
            check_id(queue, held, message_id)
            queue.core.ack(held, lease)
        except InvalidReceipt as error:
            answer = problem(error)
        commit_batch = queue.runtime.commit()
    return call.async_broker.when_durable(commit_batch, answer)


OPERATIONS = (
    Operation(
        "GET",
        "/queues/{queue}/processed/{message_id}",
        "Ask whether a message was handled before",
        is_processed,
        "queue.settle",
        {200: ("Whether it was.", {"type": "object"})},
        query=RecordField("Whose memory.", {"worker": WORKER}),
    ),
    Operation(
        "POST",
        "/queues/{queue}/messages/{message_id}/finish",
        "Acknowledge a message and remember that it was handled",
        finish,
        "queue.settle",
        DONE,
        body=RecordField("Which delivery, and who handled it.", {"receipt_handle": RECEIPT, "worker": WORKER}),
    ),
)
