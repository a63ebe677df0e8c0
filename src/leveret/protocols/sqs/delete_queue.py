"""DeleteQueue and PurgeQueue."""

from leveret.core import browse
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.queues import SqsQueue

PURGE_MS = 60_000


def delete_queue(call: SqsCall, queue: SqsQueue) -> Answer:
    """A queue goes, with everything in it."""
    account = call.account
    with account.runtime:
        account.queues.delete(queue)
        account.runtime.waiters.wake_all([queue.core.id])
        account.note_deleted(queue.name)
        commit_batch = account.runtime.commit()
    return call.durable(commit_batch)


def purge_queue(call: SqsCall, queue: SqsQueue) -> Answer:
    """Everything in a queue goes, also what is delayed or received; what was sent before is no duplicate any more."""
    account = call.account
    with account.runtime as core:
        if account.settings.guards and core.now_ms - queue.purged_ms < PURGE_MS:
            raise SqsError("PurgeQueueInProgress", name=queue.name)
        queue.purged_ms = core.now_ms
        browse.purge(queue.core, True)
        queue.details["purges"] += 1
        account.queues.keep(queue)
        commit_batch = account.runtime.commit()
    return call.durable(commit_batch)
