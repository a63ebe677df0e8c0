"""The attributes of queues: one table of ranges, defaults, and the setting of the core that each one is.

All values are strings. What the core knows is read from its policy, so that a queue that was declared by AMQP has
attributes too; the rest is kept beside the queue.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from leveret.core.policy import QueuePolicy
from leveret.protocols.sqs.errors import SqsError

JSON_CHARS_MAX = 32_768
KEY_CHARS_MAX = 2_048

_DIGITS = re.compile(r"\d{1,9}")
Check = Callable[[str], None]
ToCore = Callable[[str], Any]
FromCore = Callable[[Any], str]


class Attribute(NamedTuple):
    """One row. `argument` is that of the queue in the core, `field` what it sets in the policy."""

    check: Check
    default: str | None = None
    argument: str | None = None
    field: str | None = None
    to_core: ToCore = str
    from_core: FromCore = str
    fifo: bool = False
    """Only for FIFO queues."""


def whole(least: int, most: int) -> Check:
    """A number within a range."""

    def check(value: str) -> None:
        if not _DIGITS.fullmatch(value) or not least <= int(value) <= most:
            raise ValueError(value)

    return check


def one_of(*choices: str) -> Check:
    """One of a few words."""

    def check(value: str) -> None:
        if value not in choices:
            raise ValueError(value)

    return check


def text(value: str) -> None:
    """Some words."""
    if len(value) > KEY_CHARS_MAX:
        raise ValueError(value)


def json_object(value: str) -> None:
    """A JSON object, or nothing at all."""
    if value and (len(value) > JSON_CHARS_MAX or not isinstance(parsed(value), dict)):
        raise ValueError(value)


def parsed(value: str) -> Any:
    """What JSON says; None for what is none."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


SCOPES = {"queue": "queue", "messageGroup": "group"}
SCOPE_WORDS = {core: name for name, core in SCOPES.items()}
_boolean = one_of("true", "false", "True", "False")
_MS: tuple[ToCore, FromCore] = (lambda seconds: int(seconds) * 1000, lambda milliseconds: str(milliseconds // 1000))
_FLAG: tuple[ToCore, FromCore] = (lambda text: text.lower() == "true", lambda value: "true" if value else "false")

ATTRIBUTES: dict[str, Attribute] = {
    "DelaySeconds": Attribute(whole(0, 900), "0", "x-delay", "delay_ms", *_MS),
    "MaximumMessageSize": Attribute(whole(1_024, 1_048_576), "1048576", "x-max-message-size", "max_message_bytes", int),
    "MessageRetentionPeriod": Attribute(whole(60, 1_209_600), "345600", "x-retention", "retention_ms", *_MS),
    "ReceiveMessageWaitTimeSeconds": Attribute(whole(0, 20), "0"),
    "VisibilityTimeout": Attribute(whole(0, 43_200), "30", "x-visibility-timeout", "lease_ms", *_MS),
    "Policy": Attribute(json_object),
    "RedrivePolicy": Attribute(json_object),
    "RedriveAllowPolicy": Attribute(json_object),
    "KmsMasterKeyId": Attribute(text),
    "KmsDataKeyReusePeriodSeconds": Attribute(whole(60, 86_400)),
    "SqsManagedSseEnabled": Attribute(_boolean, "true"),
    "FifoQueue": Attribute(one_of("true", "True"), fifo=True),
    "ContentBasedDeduplication": Attribute(
        _boolean, "false", "x-content-deduplication", "content_dedup", *_FLAG, fifo=True
    ),
    "DeduplicationScope": Attribute(
        one_of(*SCOPES),
        "queue",
        "x-deduplication-scope",
        "dedup_scope",
        SCOPES.__getitem__,
        SCOPE_WORDS.__getitem__,
        fifo=True,
    ),
    "FifoThroughputLimit": Attribute(one_of("perQueue", "perMessageGroupId"), "perQueue", fifo=True),
}
FIXED = frozenset(("DeduplicationScope",))
"""Attributes with an effect that their value at the creation of a queue has for ever, as at AWS."""
COUNTED = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")
READ_ONLY = ("QueueArn", "CreatedTimestamp", "LastModifiedTimestamp", *COUNTED)
READABLE = frozenset((*ATTRIBUTES, *READ_ONLY))
ALL = "All"


def check_attributes(given: dict[str, str], fifo: bool) -> dict[str, str]:
    """The attributes that a request sets, checked one by one; booleans in small letters."""
    for name, value in given.items():
        row = ATTRIBUTES.get(name)
        if row is None:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
        if row.fifo and not fifo:
            raise SqsError("InvalidAttributeName", _only_fifo(name))
        try:
            row.check(value)
        except ValueError:
            raise SqsError("InvalidAttributeValue", name=name) from None
    if given.get("FifoThroughputLimit") == "perMessageGroupId" and given.get("DeduplicationScope") == "queue":
        raise SqsError("InvalidAttributeValue", name="FifoThroughputLimit")
    return {name: value.lower() if ATTRIBUTES[name].check is _boolean else value for name, value in given.items()}


def is_kept(name: str) -> bool:
    """Whether an attribute is kept beside the queue."""
    return name in FIXED or not ATTRIBUTES[name].argument


def check_kept(given: dict[str, str], queue: str) -> dict[str, str]:
    """The attributes of a queue that are kept beside it, checked; others are refused."""
    for name in given:
        if name in ATTRIBUTES and not is_kept(name):
            raise SqsError("InvalidAttributeName", f"{name} is an argument of the queue: give it there.")
    return check_attributes({name: value for name, value in given.items() if value != ""}, queue.endswith(".fifo"))


def _only_fifo(name: str) -> str:
    if name in ("FifoQueue", "ContentBasedDeduplication"):
        return f"Unknown Attribute {name}."
    return f"You can specify the {name} only when FifoQueue is set to true."


def core_attributes(policy: QueuePolicy, fifo: bool) -> dict[str, str]:
    """The attributes that the core knows."""
    found = {}
    for name, row in ATTRIBUTES.items():
        if row.field is not None and row.default is not None and (fifo or not row.fifo):
            value = getattr(policy, row.field)
            found[name] = row.default if value is None else row.from_core(value)
    return found


def core_arguments(attributes: dict[str, str]) -> dict[str, Any]:
    """What attributes are in the core."""
    rows = ((ATTRIBUTES[name], value) for name, value in attributes.items())
    return {row.argument: row.to_core(value) for row, value in rows if row.argument is not None}


def defaults(fifo: bool) -> dict[str, str]:
    """What a new queue has without being told."""
    return {name: row.default for name, row in ATTRIBUTES.items() if row.default is not None and (fifo or not row.fifo)}
