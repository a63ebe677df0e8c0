"""Who may do what with a queue: the policy of the queue decides first, then the permissions of the user."""

from typing import Literal

from leveret.core.errors import AccessRefused
from leveret.http.sqs.call import Call
from leveret.http.sqs.errors import SqsError
from leveret.http.sqs.queue_policy import Asked, decide
from leveret.http.sqs.queues import SqsQueue
from leveret.security.permissions import Resource

Access = Literal["configure", "write", "read"]

NEEDS: dict[str, Access | None] = {
    "AddPermission": "configure",
    "ChangeMessageVisibility": "read",
    "CreateQueue": "configure",
    "DeleteMessage": "read",
    "DeleteQueue": "configure",
    "GetQueueAttributes": None,
    "GetQueueUrl": None,
    "ListDeadLetterSourceQueues": None,
    "ListQueueTags": None,
    "PurgeQueue": "read",
    "ReceiveMessage": "read",
    "RemovePermission": "configure",
    "SendMessage": "write",
    "SetQueueAttributes": "configure",
    "TagQueue": "configure",
    "UntagQueue": "configure",
}
"""What each action needs; None: any of the three."""
EACH: tuple[Access, ...] = ("read", "write", "configure")
DECISIONS_MAX = 100_000


class Decisions:
    """What users may do with queues without a policy of their own, until a permission changes."""

    def __init__(self) -> None:
        """Nothing was decided yet."""
        self._generation = -1
        self._allowed: set[tuple[str, int, str]] = set()

    def allowed(self, call: Call, queue: SqsQueue, action: str) -> bool:
        """Whether the caller may do something; what is refused is looked at anew each time."""
        user, generation = call.caller.user, call.account.access.generation
        assert user is not None, "without users everything is allowed"
        if generation != self._generation or len(self._allowed) >= DECISIONS_MAX:
            self._allowed.clear()
            self._generation = generation
        asked = (user, queue.core.id, action)
        if asked in self._allowed:
            return True
        need = NEEDS[action]
        if not _permitted(call, user, queue.name, EACH if need is None else (need,)):
            return False
        self._allowed.add(asked)
        return True


def authorize(call: Call, queue: SqsQueue, action: str) -> None:
    """Refuse an action on a queue; a batch needs what one of its entries needs."""
    if call.caller.user is not None and not _allowed(call, queue, action.removesuffix("Batch")):
        raise denied(call, action, queue.arn)


def authorize_name(call: Call, name: str, action: str) -> None:
    """The same for a queue that is not there yet."""
    need = NEEDS[action]
    assert need is not None, "it changes something"
    if call.caller.user is not None and not _permitted(call, call.caller.user, name, (need,)):
        raise denied(call, action, call.account.settings.arn(name))


def may_see(call: Call, queue: SqsQueue) -> bool:
    """Whether the caller may know that a queue exists."""
    return call.caller.user is None or _allowed(call, queue, "GetQueueUrl")


def denied(call: Call, action: str, resource: str) -> SqsError:
    """The refusal of a caller that may not."""
    return SqsError("AccessDenied", user=call.caller.arn, action=action.lower(), resource=resource)


def _allowed(call: Call, queue: SqsQueue, action: str) -> bool:
    policy = queue.kept.get("Policy")
    if policy:
        caller, settings = call.caller, call.account.settings
        asked = Asked(settings.account, caller.arn, action, queue.arn, caller.host, caller.tls)
        decision = decide(policy, asked)
        if decision is not None:
            return decision
    return call.account.decisions.allowed(call, queue, action)


def _permitted(call: Call, user: str, name: str, needs: tuple[Access, ...]) -> bool:
    """Whether a user has one of these permissions on a queue."""
    permissions, vhost = call.account.access.permissions, call.account.settings.vhost
    for need in needs:
        try:
            permissions.check(user, vhost, Resource("queue", name), need)
        except AccessRefused:
            continue
        return True
    return False
