"""The policy of a queue: statements that allow or deny actions to principals, and what they decide.

    {"Version": "2012-10-17", "Statement": [{"Sid": "label", "Effect": "Allow", "Principal": {"AWS": [...]},
     "Action": ["sqs:SendMessage"], "Resource": "arn:aws:sqs:...", "Condition": {...}}]}

A denial wins. A condition that is not known here never allows, and never keeps a denial from counting.
"""

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

from leveret.core.patterns import like
from leveret.protocols.sqs.attributes import parsed
from leveret.protocols.sqs.errors import SqsError

VERSION = "2008-10-17"
"""Of a policy that AddPermission begins; one that was set keeps its own."""
UNSUPPORTED = ("NotPrincipal", "NotAction", "NotResource")
Statements = list[dict[str, Any]]


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
    """One word or many."""
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
    """Whether a principal of a statement is the one who asks."""
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
