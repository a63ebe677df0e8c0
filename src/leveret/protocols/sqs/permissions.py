"""AddPermission and RemovePermission: statements of the policy of a queue, by label."""

import re

from leveret.protocols.sqs.authorization import authorize_grants
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.parameters import names, required
from leveret.protocols.sqs.queue_policy import labels, with_statement, without_statement
from leveret.protocols.sqs.queues import SqsQueue

ACTIONS_MAX = 7
ALLOWED = frozenset(
    (
        "*",
        "SendMessage",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
    )
)
PRINCIPALS_MAX = 50

_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")
_PRINCIPAL = re.compile(r"\d{12}|\*|arn:aws:iam::\d{12}:[\w+=,.@/-]{1,200}")


def add_permission(call: SqsCall, queue: SqsQueue) -> Answer:
    """Let other principals do something."""
    given = call.parameters
    for name in ("Label", "AWSAccountIds", "Actions"):
        required(given, name)
    label, principals, actions = given["Label"], names(given, "AWSAccountIds"), names(given, "Actions")
    if not _LABEL.fullmatch(label):
        raise invalid(f"Value {label[:200]} for parameter Label is invalid. Reason: 1 to 80 letters, digits, - and _.")
    if len(actions) > ACTIONS_MAX:
        raise SqsError("OverLimit", f"{len(actions)} Actions were found, maximum allowed is {ACTIONS_MAX}.")
    for action in actions:
        if action not in ALLOWED:
            allowed = ", ".join(sorted(ALLOWED))
            raise invalid(f"Value SQS:{action} for parameter ActionName is invalid. Reason: Must be one of {allowed}.")
    if len(principals) > PRINCIPALS_MAX or not all(_PRINCIPAL.fullmatch(each) for each in principals):
        raise invalid(f"Value {principals} for parameter PrincipalId is invalid. Reason: Unable to verify.")
    policy = queue.kept.get("Policy")
    if label in labels(policy):
        raise invalid(f"Value {label} for parameter Label is invalid. Reason: Already exists.")
    settings = call.account.settings
    arns = [f"arn:aws:iam::{each}:root" if each.isdigit() else each for each in principals]
    qualified = [f"SQS:{action}" for action in actions]
    changed = with_statement(policy, settings.arn(queue.name), label, arns, qualified)
    authorize_grants(call, queue.name, queue, changed)
    return _set(call, queue, changed)


def remove_permission(call: SqsCall, queue: SqsQueue) -> Answer:
    """Take a statement back."""
    label = required(call.parameters, "Label")
    policy = queue.kept.get("Policy")
    if policy is None or label not in labels(policy):
        raise invalid(f"Value {label} for parameter Label is invalid. Reason: can't find label.")
    return _set(call, queue, without_statement(policy, label))


def _set(call: SqsCall, queue: SqsQueue, policy: str) -> Answer:
    with call.account.runtime:
        call.account.queues.change(queue, {"Policy": policy})
        commit_batch = call.account.runtime.commit()
    return call.durable(commit_batch)
