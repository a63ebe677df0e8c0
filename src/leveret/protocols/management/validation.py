"""Refusals of policies and limits in RabbitMQ's words: `Validation failed`, an empty line, and what is wrong."""

import json
from collections.abc import Mapping
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.policy import APPLY_TO, Policy, recognised
from leveret.protocols.management.refusals import BadRequest

NOUNS = {
    "alternate-exchange": "alternate exchange name",
    "dead-letter-exchange": "dead letter exchange name",
    "dead-letter-routing-key": "dead letter routing key",
    "message-ttl": "message TTL",
    "expires": "queue expiry",
    "max-length": "maximum length",
    "max-length-bytes": "maximum length in bytes",
    "queue-mode": "queue-mode value",
    "queue-version": "queue-version value",
    "overflow": "overflow value",
    "delivery-limit": "delivery limit",
    "max-age": "max age",
    "queue-leader-locator": "queue leader locator value",
    "stream-max-segment-size-bytes": "segment size",
    "consumer-timeout": "consumer timeout",
}
"""What RabbitMQ calls the value of a setting that it refuses."""
CHOICES = "'queues', 'classic_queues', 'quorum_queues', 'streams', 'exchanges', or 'all'"


def invalid(text: str) -> BadRequest:
    """The refusal of a policy, a parameter or the limit of a virtual host."""
    return BadRequest(f"Validation failed\n\n{text}\n")


def checked_policy(
    name: str, pattern: str, priority: int, apply_to: object, definition: object, operator: bool
) -> Policy:
    """The policy that a client describes."""
    if not isinstance(definition, dict):
        raise invalid(f"definition must be a dictionary: {term(definition)}")
    if not definition:
        raise invalid("no policy provided")
    if not isinstance(apply_to, str) or apply_to not in APPLY_TO:
        told = apply_to if isinstance(apply_to, str) else term(apply_to)
        raise invalid(f"apply-to '{told}' unrecognised; should be one of: {CHOICES}")
    try:
        return Policy(name, pattern, priority, apply_to, definition, operator)
    except InvalidArgument as error:
        raise invalid(_wrong(definition, operator) or str(error)) from None


def _wrong(definition: Mapping[str, Any], operator: bool) -> str | None:
    """The settings that do not exist, or the first value that is refused."""
    unknown = {key: value for key, value in definition.items() if not recognised(key, operator)}
    if unknown:
        return f"{pairs(unknown)} are not recognised policy settings"
    for key, value in definition.items():
        try:
            Policy("one", "", definition={key: value}, operator=operator)
        except InvalidArgument:
            return f"{term(value)} is not a valid {NOUNS.get(key, key)}"
    return None


def pairs(values: Mapping[str, Any]) -> str:
    """Named values as Erlang writes a list of pairs."""
    return f"[{','.join(f'{{{term(key)},{term(value)}}}' for key, value in values.items())}]"


def term(value: object) -> str:
    """A value of JSON as Erlang writes it."""
    if isinstance(value, str):
        return f"<<{json.dumps(value, ensure_ascii=False)}>>"
    if isinstance(value, list):
        return f"[{','.join(map(term, value))}]"
    if isinstance(value, dict):
        return f"#{{{','.join(f'{term(key)} => {term(each)}' for key, each in value.items())}}}"
    return json.dumps(value)
