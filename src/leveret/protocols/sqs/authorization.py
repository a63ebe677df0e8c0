"""Authorisation of SQS actions: the policy of the queue decides first, then the permissions of the user.

    {"Version": "2012-10-17", "Statement": [{"Sid": "label", "Effect": "Allow", "Principal": {"AWS": [...]},
     "Action": ["sqs:SendMessage"], "Resource": "arn:aws:sqs:...", "Condition": {...}}]}

A denial wins. A condition that is not known here never allows, and never keeps a denial from counting. AddPermission
and RemovePermission change the statements of the policy, by label.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

from leveret.core.patterns import like
from leveret.operations.registry import rule_of
from leveret.protocols.sqs.attributes import parsed
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.wire import Answer, SqsCall, names, required
from leveret.security.authorisation import allowed
from leveret.security.identity import Identity

VERSION = "2008-10-17"
"""Of a policy that AddPermission begins; one that was set keeps its own."""
UNSUPPORTED = ("NotPrincipal", "NotAction", "NotResource")
Statements = list[dict[str, Any]]
ACTIONS: dict[str, str] = {
    "AddPermission": "queue.grant",
    "CancelMessageMoveTask": "queue.redrive",
    "ChangeMessageVisibility": "queue.settle",
    "CreateQueue": "queue.declare",
    "DeleteMessage": "queue.settle",
    "DeleteQueue": "queue.delete",
    "GetQueueAttributes": "queue.attributes",
    "GetQueueUrl": "queue.see",
    "ListDeadLetterSourceQueues": "queue.see",
    "ListMessageMoveTasks": "queue.list-moves",
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


class Asked(NamedTuple):
    """Who wants to do what, from where."""

    account: str
    user_arn: str
    action: str
    resource: str
    host: str
    tls: bool


def decide(policy: str | None, asked: Asked) -> bool | None:
    """True: allowed. False: denied. None: the policy says nothing about it."""
    allowed = None
    for statement in _statements(policy) if policy else ():
        if not _concerns(statement, asked):
            continue
        fits = _fits(statement.get("Condition"), asked)
        if statement.get("Effect") == "Deny" and fits is not False:
            return False
        if statement.get("Effect") == "Allow" and fits:
            allowed = True
    return allowed


@lru_cache(maxsize=1_000)
def _statements(policy: str) -> Statements:
    document = parsed(policy)
    found = document.get("Statement") if isinstance(document, dict) else None
    rows = found if isinstance(found, list) else [found]
    return [row for row in rows if isinstance(row, dict)]


def _listed(value: Any) -> list[str]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]


def _concerns(statement: dict[str, Any], asked: Asked) -> bool:
    """Whether a statement is about this principal, action and resource."""
    action = f"sqs:{asked.action}".lower()
    actions = [each.lower() for each in _listed(statement.get("Action"))]
    resources = _listed(statement.get("Resource", "*"))
    return (
        _names(statement.get("Principal"), asked)
        and any(like(each, action) for each in actions)
        and any(like(each, asked.resource) for each in resources)
    )


def _names(principal: Any, asked: Asked) -> bool:
    """Whether a principal of a statement is the caller."""
    listed = _listed(principal.get("AWS") if isinstance(principal, dict) else principal)
    root = f"arn:aws:iam::{asked.account}:root"
    return any(each in ("*", asked.account, root, asked.user_arn) for each in listed)


def _in_network(actual: str, wanted: str) -> bool:
    try:
        return ip_address(actual) in ip_network(wanted, strict=False)
    except ValueError:
        return False


def _equal(actual: str, wanted: str) -> bool:
    return actual.lower() == wanted.lower()


def _like(actual: str, wanted: str) -> bool:
    return like(wanted, actual)


OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "IpAddress": _in_network,
    "Bool": _equal,
    "StringEquals": str.__eq__,
    "StringLike": _like,
    "ArnEquals": _like,
    "ArnLike": _like,
}
NEGATED = {"NotIpAddress": "IpAddress", "StringNotEquals": "StringEquals", "ArnNotEquals": "ArnEquals"}
KEYS: dict[str, Callable[[Asked], str]] = {
    "aws:sourceip": lambda asked: asked.host,
    "aws:securetransport": lambda asked: "true" if asked.tls else "false",
    "aws:principalarn": lambda asked: asked.user_arn,
    "aws:username": lambda asked: asked.user_arn.rpartition("/")[2],
}


def _fits(condition: Any, asked: Asked) -> bool | None:
    """Whether all conditions hold; None when one of them is not known here."""
    if condition is None:
        return True
    if not isinstance(condition, dict):
        return None
    known: list[bool] = []
    for operator, fields in condition.items():
        compare = OPERATORS.get(NEGATED.get(operator) or operator)
        for key, wanted in fields.items() if isinstance(fields, dict) else ():
            actual = KEYS.get(key.lower())
            if compare is None or actual is None:
                return None
            value = actual(asked)
            met = any(compare(value, str(each)) for each in (wanted if isinstance(wanted, list) else [wanted]))
            known.append(met != (operator in NEGATED))
    return all(known)


# Changes


def added_actions(known: str | None, policy: str, actions: Iterable[str]) -> list[str]:
    """Those of some actions that a policy allows in statements which the known one has not."""
    before = _statements(known) if known else []
    new = [each for each in _statements(policy) if each not in before] if policy else []
    patterns = [each.lower() for row in new if row.get("Effect") == "Allow" for each in _listed(row.get("Action"))]
    return [each for each in actions if any(like(pattern, f"sqs:{each}".lower()) for pattern in patterns)]


def labels(policy: str | None) -> list[str]:
    """The labels of the statements."""
    return [str(each.get("Sid")) for each in _statements(policy)] if policy else []


def with_statement(policy: str | None, arn: str, label: str, principals: list[str], actions: list[str]) -> str:
    """The policy with one statement more."""
    statement = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
        "Action": actions[0] if len(actions) == 1 else actions,
        "Resource": arn,
    }
    begun = policy or json.dumps({"Version": VERSION, "Id": f"{arn}/SQSDefaultPolicy"})
    return _written(begun, [*_statements(begun), statement])


def without_statement(policy: str, label: str) -> str:
    """The policy without a statement; nothing when none is left."""
    left = [each for each in _statements(policy) if each.get("Sid") != label]
    return _written(policy, left) if left else ""


def _written(policy: str, statements: Statements) -> str:
    """The policy with other statements."""
    return json.dumps({**parsed(policy), "Statement": statements}, separators=(",", ":"))


def check_policy(policy: str) -> None:
    """Refuse a policy that could not be followed."""
    for statement in _statements(policy) if policy else ():
        known = statement.get("Effect") in ("Allow", "Deny") and "Principal" in statement and "Action" in statement
        if not known or any(name in statement for name in UNSUPPORTED):
            raise SqsError("InvalidAttributeValue", name="Policy")


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
    policy = queue.details["attributes"].get("Policy")
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
    return allowed(permissions, Identity(user), rule_of(ACTIONS[action]), vhost, {"queue": name})


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
