"""Authorisation of SQS actions: the policy of the queue decides first, then the permissions of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.queue_policy import Asked, added_actions, decide
from leveret.security.authorisation import allowed
from leveret.security.identity import Identity

if TYPE_CHECKING:
    from leveret.protocols.sqs.call import SqsCall
    from leveret.protocols.sqs.queues import SqsQueue

ACTIONS: dict[str, str] = {
    "AddPermission": "queue.grant",
    "CancelMessageMoveTask": "queue.redrive",
    "ChangeMessageVisibility": "queue.settle",
    "CreateQueue": "queue.declare",
    "DeleteMessage": "queue.settle",
    "DeleteQueue": "queue.delete",
    "GetQueueAttributes": "queue.see",
    "GetQueueUrl": "queue.see",
    "ListDeadLetterSourceQueues": "queue.see",
    "ListMessageMoveTasks": "queue.redrive",
    "ListQueueTags": "queue.see",
    "ListQueues": "queue.see",
    "PurgeQueue": "queue.purge",
    "ReceiveMessage": "basic.get",
    "RemovePermission": "queue.grant",
    "SendMessage": "queue.send",
    "SetQueueAttributes": "queue.update",
    "StartMessageMoveTask": "queue.redrive",
    "TagQueue": "queue.tag",
    "UntagQueue": "queue.tag",
}
"""The operation that each action is; a batch is its action."""


def authorize(call: SqsCall, queue: SqsQueue, action: str) -> None:
    """Refuse an action on a queue; a batch needs what one of its entries needs."""
    if not may(call, queue, action.removesuffix("Batch")):
        raise denied(call, action, queue.arn)


def authorize_name(call: SqsCall, name: str, action: str) -> None:
    """The same for a queue that is not there yet."""
    if not _permitted(call, name, action):
        raise denied(call, action, call.account.settings.arn(name))


def authorize_redrive(call: SqsCall, name: str, queue: SqsQueue | None, target: SqsQueue) -> None:
    """Refuse a dead-letter queue without read on the queue whose messages go there, or write on itself.

    `queue` is None while it is made.
    """
    if queue is None:
        authorize_name(call, name, "ReceiveMessage")
    else:
        authorize(call, queue, "ReceiveMessage")
    authorize(call, target, "SendMessage")


def authorize_grants(call: SqsCall, name: str, queue: SqsQueue | None, policy: str) -> None:
    """Refuse a policy that newly allows what the caller may not do itself; `queue` is None while it is made."""
    known = None if queue is None else queue.kept.get("Policy")
    for action in added_actions(known, policy, ACTIONS):
        if queue is None:
            authorize_name(call, name, action)
        else:
            authorize(call, queue, action)


def may_see(call: SqsCall, queue: SqsQueue) -> bool:
    """Whether the caller may know that a queue exists."""
    return may(call, queue, "GetQueueUrl")


def may(call: SqsCall, queue: SqsQueue, action: str) -> bool:
    """Whether the caller may do something with a queue; without users everything is allowed."""
    if call.caller.user is None:
        return True
    policy = queue.kept.get("Policy")
    if policy:
        caller, settings = call.caller, call.account.settings
        asked = Asked(settings.account, caller.arn, action, queue.arn, caller.host, caller.tls)
        decision = decide(policy, asked)
        if decision is not None:
            return decision
    decisions, known = call.account.decisions, (call.caller.user, queue.core.id, action)
    if decisions.has(known, call.account.access.generation):
        return True
    if not _permitted(call, queue.name, action):
        return False
    decisions.add(known)
    return True


def denied(call: SqsCall, action: str, resource: str) -> SqsError:
    """The refusal of an action."""
    return SqsError("AccessDenied", user=call.caller.arn, action=action.lower(), resource=resource)


def _permitted(call: SqsCall, name: str, action: str) -> bool:
    """Whether the permissions of the caller allow an action on a queue."""
    user = call.caller.user
    if user is None:
        return True
    permissions, vhost = call.account.access.permissions, call.account.settings.vhost
    return allowed(permissions, Identity(user), ACTIONS[action], vhost, {"queue": name})
