"""ChangeMessageVisibility and its batch: keep a message longer, or give it back."""

from leveret.core.errors import InvalidReceipt
from leveret.protocols.http.response import Response
from leveret.protocols.sqs import batches
from leveret.protocols.sqs.call import SqsCall
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.loops import newest_lease
from leveret.protocols.sqs.parameters import Parameters, number
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.receipt_handles import read_handle, refused

VISIBILITY_S_MAX = 43_200
GONE = "Message does not exist or is not available for visibility timeout change."


def change_message_visibility(call: SqsCall, queue: SqsQueue) -> Response:
    """Hide a message for so many seconds from now on."""
    with call.account.runtime:
        _change(call, queue, call.parameters)
    return call.answer()


def change_message_visibility_batch(call: SqsCall, queue: SqsQueue) -> Response:
    """The same for up to ten messages."""
    given = batches.entries(call)
    with call.account.runtime:
        result = batches.each(given, lambda entry: _change(call, queue, entry))
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
