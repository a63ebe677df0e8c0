"""DeleteMessage and DeleteMessageBatch."""

from leveret.core import browse
from leveret.core.errors import InvalidReceipt
from leveret.protocols.sqs import batches, texts
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.loops import acknowledge
from leveret.protocols.sqs.parameters import Parameters
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.receipt_handles import read_handle, refused


def delete_message(call: SqsCall, queue: SqsQueue) -> Answer:
    """Done with a message."""
    with call.account.runtime:
        if not acknowledge(queue.core, call.account.receipts, [call.parameters]):
            _delete(call, queue, call.parameters)
        commit_batch = call.account.runtime.commit()
    return call.durable(commit_batch)


def delete_message_batch(call: SqsCall, queue: SqsQueue) -> Answer:
    """Done with up to ten messages."""
    given = batches.entries(call)
    with call.account.runtime:
        count = acknowledge(queue.core, call.account.receipts, given)
        result = batches.each(given[count:], lambda entry: _delete(call, queue, entry)) if count < len(given) else None
        commit_batch = call.account.runtime.commit()
    if result is None and call.in_json:
        return call.account.async_broker.when_durable(commit_batch, call.answer_text(texts.deleted(given)))
    result = result or batches.outcomes([], [])
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
