"""DeleteQueue and PurgeQueue."""

from leveret.core import browse
from leveret.protocols.sqs.call import Answer, Call
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.queues import SqsQueue

PURGE_MS = 60_000


def delete_queue(call: Call, queue: SqsQueue) -> Answer:
    """A queue goes, with everything in it."""
    account = call.account
    with account.guard:
        account.queues.delete(queue)
        account.guard.waiters.wake_all([queue.core.id])
        account.note_deleted(queue.name)
        frame = account.guard.commit()
    return call.durable(frame)


def purge_queue(call: Call, queue: SqsQueue) -> Answer:
    """Everything in a queue goes, also what is delayed or received; what was sent before is no duplicate any more."""
    account = call.account
    with account.guard as core:
        if account.settings.guards and core.now_ms - queue.purged_ms < PURGE_MS:
            raise SqsError("PurgeQueueInProgress", name=queue.name)
        queue.purged_ms = core.now_ms
        browse.purge(queue.core, True)
        queue.details["purges"] += 1
        account.queues.keep(queue)
        frame = account.guard.commit()
    return call.durable(frame)
