"""DeleteMessage, ChangeMessageVisibility and their batches: settle a message, or keep it longer."""

from leveret.core import browse
from leveret.core.errors import InvalidReceipt
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.batch import batch_entries, batch_result, for_each_entry
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.loops import acknowledge, deleted_json, newest_lease
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.wire import Answer, Parameters, SqsCall, number, required

VISIBILITY_S_MAX = 43_200
GONE = "Message does not exist or is not available for visibility timeout change."


def read_handle(call: SqsCall, queue: SqsQueue, given: Parameters) -> tuple[int, int]:
    """The number of a message and of its delivery."""
    handle: str = required(given, "ReceiptHandle")
    try:
        return call.account.receipts.read(queue.core.id, handle)
    except InvalidReceipt:
        raise SqsError("ReceiptHandleIsInvalid", handle=handle[:1_024]) from None


def refused(handle: str, reason: str) -> SqsError:
    """The refusal of a handle whose message is not as it was."""
    return invalid(f"Value {handle} for parameter ReceiptHandle is invalid. Reason: {reason}")


def delete_message(call: SqsCall, queue: SqsQueue) -> Answer:
    """Done with a message."""
    with call.account.runtime:
        if not acknowledge(queue.core, call.account.receipts, [call.parameters]):
            _delete(call, queue, call.parameters)
        commit_batch = call.account.runtime.commit()
    return call.durable(commit_batch)


def delete_message_batch(call: SqsCall, queue: SqsQueue) -> Answer:
    """Done with up to ten messages."""
    given = batch_entries(call)
    with call.account.runtime:
        count = acknowledge(queue.core, call.account.receipts, given)
        result = (
            for_each_entry(given[count:], lambda entry: _delete(call, queue, entry)) if count < len(given) else None
        )
        commit_batch = call.account.runtime.commit()
    if result is None and call.in_json:
        return call.account.async_broker.when_durable(commit_batch, call.answer_text(deleted_json(given)))
    result = result or batch_result([], [])
    result["Successful"][:0] = [{"Id": entry["Id"]} for entry in given[:count]]
    return call.durable(commit_batch, result)


def _delete(call: SqsCall, queue: SqsQueue, given: Parameters) -> None:
    """Settle a message. A handle that was used before is no error; neither is an old one, but for FIFO queues."""
    seq, lease = read_handle(call, queue, given)
    core, kept = queue.core, call.account.core.kept
    try:
        core.ack(core.find_lease(seq, lease), lease)
        return
    except InvalidReceipt:
        held = None if kept is None else kept(core, seq)
    if held is not None:
        core.ack(held, held.lease)
    elif queue.fifo and core.has_held(seq):
        raise refused(given["ReceiptHandle"], "The receipt handle has expired.")
    else:
        browse.ack_waiting(core, seq)


def change_message_visibility(call: SqsCall, queue: SqsQueue) -> Response:
    """Hide a message for so many seconds from now on."""
    with call.account.runtime:
        _change(call, queue, call.parameters)
    return call.answer()


def change_message_visibility_batch(call: SqsCall, queue: SqsQueue) -> Response:
    """The same for up to ten messages."""
    given = batch_entries(call)
    with call.account.runtime:
        result = for_each_entry(given, lambda entry: _change(call, queue, entry))
    return call.answer(result)


def _change(call: SqsCall, queue: SqsQueue, given: Parameters) -> None:
    seq, lease = read_handle(call, queue, given)
    timeout_s = number(given, "VisibilityTimeout", VISIBILITY_S_MAX)
    if timeout_s is None:
        raise SqsError("MissingParameter", name="VisibilityTimeout")
    core = queue.core
    try:
        held = core.find_lease(seq, lease)
    except InvalidReceipt:
        if queue.fifo or not core.has_held(seq):
            raise refused(given["ReceiptHandle"], GONE) from None
        # An older receipt is good as well, as at AWS: the message is hidden again, or its newer delivery changes.
        newer = newest_lease(core, seq)
        if newer is None:
            if timeout_s:
                core.renew(seq, lease, timeout_s * 1000)
            return
        held, lease = newer, newer.lease
    held_s = (call.account.core.now_ms - held.delivered_ms) // 1000
    if held_s + timeout_s > VISIBILITY_S_MAX:
        raise invalid(
            f"Value {timeout_s} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the "
            f"message is beyond the limit [{VISIBILITY_S_MAX} seconds]."
        )
    if timeout_s:
        core.extend(held, lease, timeout_s * 1000)
    else:
        core.nack(held, lease, 0)
