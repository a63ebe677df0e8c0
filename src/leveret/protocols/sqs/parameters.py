"""The parameters of a request: which type each has, and how they are read.

A parameter has the same type in all actions. Those that are not in the table are ignored, as AWS does.
"""

import re
from collections.abc import Mapping
from typing import Any

from leveret.protocols.sqs.errors import SqsError, invalid

Parameters = dict[str, Any]

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What neither a message nor an XML document may have in it."""

_BY_TYPE: dict[type, str] = {
    str: (
        "ActionName DestinationArn Label MessageBody MessageDeduplicationId MessageGroupId NextToken "
        "QueueName QueueNamePrefix QueueOwnerAWSAccountId QueueUrl ReceiptHandle ReceiveRequestAttemptId "
        "SourceArn TaskHandle"
    ),
    int: "DelaySeconds MaxNumberOfMessages MaxNumberOfMessagesPerSecond MaxResults VisibilityTimeout WaitTimeSeconds",
    list: "Actions AWSAccountIds AttributeNames Entries MessageAttributeNames MessageSystemAttributeNames TagKeys",
    dict: "Attributes MessageAttributes MessageSystemAttributes Tags tags",
}
TYPES: dict[str, type] = {name: kind for kind, names in _BY_TYPE.items() for name in names.split()}
ENTRY_ID_CHARS_MAX = 80
WORDS = {str: "String", int: "Integer", list: "List", dict: "Map"}


def check_types(parameters: Mapping[str, Any]) -> None:
    """Refuse values of another type than the table has."""
    for name, value in parameters.items():
        wanted = TYPES.get(name)
        if wanted is not None and type(value) is not wanted and value is not None:
            raise SqsError("Serialization", f"{name} is a {WORDS[wanted]}, not {type(value).__name__}")


def required(parameters: Parameters, name: str) -> Any:
    """A parameter that has to be there."""
    value = parameters.get(name)
    if value is None or value == "":
        raise SqsError("MissingParameter", name=name)
    return value


def number(parameters: Parameters, name: str, most: int, *, least: int = 0) -> int | None:
    """A number within its range, or None when it is not given."""
    value: int | None = parameters.get(name)
    if value is not None and not least <= value <= most:
        between = f"between {least} and {most}" if least else f">= 0 and <= {most}"
        raise invalid(f"Value {value} for parameter {name} is invalid. Reason: Must be {between}, if provided.")
    return value


def names(parameters: Parameters, name: str) -> list[str]:
    """A list of words, perhaps none."""
    given = parameters.get(name) or []
    if not all(isinstance(each, str) for each in given):
        raise SqsError("Serialization", f"{name} is a list of strings")
    found: list[str] = given
    return found


def texts(parameters: Parameters, name: str) -> dict[str, str]:
    """A map of words to words, perhaps none."""
    given = parameters.get(name) or {}
    if not all(isinstance(value, str) for value in given.values()):
        raise SqsError("Serialization", f"{name} is a map of strings to strings")
    found: dict[str, str] = given
    return found
