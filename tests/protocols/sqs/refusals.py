"""Rows of the table of refusals: what a request gets in either protocol, and short ways to write one."""

from typing import Any, NamedTuple

SIMPLE = "AWS.SimpleQueueService."


class Row(NamedTuple):
    """A request that is refused, and how."""

    action: str
    parameters: dict[str, Any]
    shape: str
    code: str
    status: int
    text: str
    query_text: str | None = None


def row(action: str, shape: str, code: str, text: str, status: int = 400, **parameters: Any) -> Row:
    return Row(action, parameters, shape, code, status, text)


def invalid(action: str, text: str, **parameters: Any) -> Row:
    return row(action, "InvalidParameterValueException", "InvalidParameterValue", text, **parameters)


def missing(action: str, name: str, **parameters: Any) -> Row:
    text = f"The request must contain the parameter {name}."
    return row(action, "MissingRequiredParameterException", "MissingParameter", text, **parameters)


def no_queue(action: str, **parameters: Any) -> Row:
    text = "The specified queue does not exist."
    wsdl = "The specified queue does not exist for this wsdl version."
    return Row(action, parameters, "QueueDoesNotExist", SIMPLE + "NonExistentQueue", 400, text, wsdl)


def attribute(name: str, value: str, queue: str = "new") -> Row:
    fifo = {"FifoQueue": "true"} if queue.endswith(".fifo") else {}
    text = f"Invalid value for the parameter {name}."
    return row(
        "CreateQueue",
        "InvalidAttributeValue",
        "InvalidAttributeValue",
        text,
        QueueName=queue,
        Attributes={**fifo, name: value},
    )


def unknown_attribute(action: str, text: str, **parameters: Any) -> Row:
    return row(action, "InvalidAttributeName", "InvalidAttributeName", text, **parameters)


def redrive(policy: str, reason: str, queue: str = "orders") -> Row:
    text = f"Value {policy} for parameter RedrivePolicy is invalid. Reason: {reason}"
    return invalid("SetQueueAttributes", text, QueueUrl=queue, Attributes={"RedrivePolicy": policy})


def message_attribute(text: str, **attributes: Any) -> Row:
    return invalid("SendMessage", text, QueueUrl="orders", MessageBody="a", MessageAttributes=attributes)
