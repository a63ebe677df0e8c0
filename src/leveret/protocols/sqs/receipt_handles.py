"""Receipt handles: which message and which delivery a request is about."""

from leveret.core.errors import InvalidReceipt
from leveret.protocols.sqs.call import SqsCall
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.parameters import Parameters, required
from leveret.protocols.sqs.queues import SqsQueue


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
