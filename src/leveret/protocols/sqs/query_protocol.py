"""The Query protocol of older SDKs and of curl: parameters as a form or in the query, results as XML.

    Action=SendMessage&MessageBody=hello&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=String&...

Lists and maps are flat: their members are numbered from 1. The tables say what their names are.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.parameters import FORBIDDEN, TYPES, Parameters

MEDIA_TYPE = "text/xml"
FORM = "application/x-www-form-urlencoded"
XMLNS = "http://queue.amazonaws.com/doc/2012-11-05/"
DEPTH_MAX = 8  # names have at most five parts

answer_text = None  # results are XML


class Sequence(NamedTuple):
    """A list whose members are called so."""

    member: str


class QueryMap(NamedTuple):
    """A map whose members have a key and a value of these names."""

    member: str
    key: str = "Name"
    value: str = "Value"


INPUTS: dict[str, Sequence | QueryMap] = {
    "Attributes": QueryMap("Attribute"),
    "tags": QueryMap("Tag", "Key"),
    "Tags": QueryMap("Tag", "Key"),
    "AttributeNames": Sequence("AttributeName"),
    "MessageSystemAttributeNames": Sequence("MessageSystemAttributeName"),
    "MessageAttributeNames": Sequence("MessageAttributeName"),
    "MessageAttributes": QueryMap("MessageAttribute"),
    "MessageSystemAttributes": QueryMap("MessageSystemAttribute"),
    "AWSAccountIds": Sequence("AWSAccountId"),
    "Actions": Sequence("ActionName"),
    "TagKeys": Sequence("TagKey"),
}
ENTRIES = {
    "SendMessageBatch": "SendMessageBatchRequestEntry",
    "DeleteMessageBatch": "DeleteMessageBatchRequestEntry",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibilityBatchRequestEntry",
}
NUMBERS = frozenset(name for name, kind in TYPES.items() if kind is int)

OUTPUTS: dict[str, Sequence | QueryMap] = {
    "Attributes": QueryMap("Attribute"),
    "MessageAttributes": QueryMap("MessageAttribute"),
    "Tags": QueryMap("Tag", "Key"),
    "Messages": Sequence("Message"),
    "QueueUrls": Sequence("QueueUrl"),
    "queueUrls": Sequence("QueueUrl"),
    "Failed": Sequence("BatchResultErrorEntry"),
    "Results": Sequence("ListMessageMoveTasksResultEntry"),
}


def decode(request: Request) -> tuple[str, Parameters]:
    """The action and the parameters of a request."""
    fields = request.form if request.media_type == FORM and request.body else request.query
    tree = _tree(fields)
    action = tree.pop("Action", None)
    if not isinstance(action, str) or not action:
        raise SqsError("UnknownOperation", "the request names no Action")
    parameters = _structure(tree)
    member = ENTRIES.get(action)
    if member is not None:
        parameters["Entries"] = [_structure(each) for each in _members(tree.get(member))]
    return action, parameters


def _tree(fields: dict[str, str]) -> dict[str, Any]:
    """Names with dots as nested dictionaries."""
    tree: dict[str, Any] = {}
    for name, value in fields.items():
        *path, last = name.split(".", DEPTH_MAX)
        node = tree
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise SqsError("Serialization", f"{name} is given together with a part of it")
        if isinstance(node.get(last), dict):
            raise SqsError("Serialization", f"{name} is given together with a part of it")
        node[last] = value
    return tree


def _members(node: Any) -> Iterator[dict[str, Any]]:
    """The members of a list, in the order of their numbers."""
    for _, value in sorted(_numbered(node)):
        if not isinstance(value, dict):
            raise SqsError("Serialization", "a member of a list is a structure here")
        yield value


def _numbered(node: Any) -> Iterator[tuple[int, Any]]:
    """The members of a list with their numbers."""
    for number, value in node.items() if isinstance(node, dict) else ():
        if not (number.isascii() and number.isdigit() and len(number) < DEPTH_MAX):
            raise SqsError("Serialization", "members of lists are numbered from 1")
        yield int(number), value


def _structure(tree: dict[str, Any]) -> Parameters:
    """The parameters in the names of the JSON protocol."""
    found: Parameters = {name: _scalar(name, value) for name, value in tree.items() if isinstance(value, str)}
    for name, kind in INPUTS.items():
        node = tree.get(kind.member)
        # SDKs send an empty list as one empty field: botocore by the list's name, Java's by that of its members.
        if isinstance(kind, Sequence) and (node == "" or found.get(name) == ""):
            found[name] = []
        if not isinstance(node, dict):
            continue
        if isinstance(kind, Sequence):
            found[name] = [value for _, value in sorted(_numbered(node), key=lambda pair: pair[0])]
        else:
            found[name] = {str(each.get(kind.key, "")): each.get(kind.value, "") for each in _members(node)}
    return found


def _scalar(name: str, value: str) -> Any:
    """A value of the type that the parameter has; what is no number is refused by the check of types."""
    if name in NUMBERS:
        try:
            return int(value)
        except ValueError:
            raise SqsError("Serialization", f"{name} is an Integer, not {value[:80]!r}") from None
    return value


def encode(action: str, result: dict[str, Any] | None, request_id: str) -> Response:
    """The answer with a result."""
    inner = "" if result is None else f"<{action}Result>{''.join(_xml(action, result))}</{action}Result>"
    body = (
        f'<?xml version="1.0"?><{action}Response xmlns="{XMLNS}">{inner}'
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
    )
    return Response(200, body.encode(), MEDIA_TYPE, (("x-amzn-RequestId", request_id),))


def _xml(action: str, structure: dict[str, Any]) -> Iterator[str]:
    """The elements of a structure."""
    for name, value in structure.items():
        kind = Sequence(f"{action}ResultEntry") if name == "Successful" else OUTPUTS.get(name)
        if kind is None:
            yield f"<{name}>{_value(action, value)}</{name}>"
        elif isinstance(kind, Sequence):
            yield from (f"<{kind.member}>{_value(action, each)}</{kind.member}>" for each in value)
        else:
            for key, each in value.items():
                yield (
                    f"<{kind.member}><{kind.key}>{_escaped(key)}</{kind.key}>"
                    f"<{kind.value}>{_value(action, each)}</{kind.value}></{kind.member}>"
                )


def _value(action: str, value: Any) -> str:
    """What stands in an element."""
    if isinstance(value, dict):
        return "".join(_xml(action, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return _escaped(str(value))


def _escaped(text: str) -> str:
    """Text as XML has it; what it cannot have is replaced."""
    # A carriage return as it is would be read as a line feed.
    return escape(FORBIDDEN.sub("\ufffd", text), {"\r": "&#13;", '"': "&quot;"})


def refuse(error: SqsError, request_id: str) -> Response:
    """The answer to a request that is refused."""
    fault = error.fault
    headers = (("x-amzn-RequestId", request_id), *error.headers)
    if error.kind == "UnknownOperation":
        return Response(fault.status, b"<UnknownOperationException/>", MEDIA_TYPE, headers)
    side = "Sender" if fault.status < 500 else "Receiver"
    body = (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{XMLNS}"><Error><Type>{side}</Type><Code>{fault.code}</Code>'
        f"<Message>{_escaped(error.query_text)}</Message><Detail/></Error><RequestId>{request_id}</RequestId>"
        "</ErrorResponse>"
    )
    return Response(fault.status, body.encode(), MEDIA_TYPE, headers)
