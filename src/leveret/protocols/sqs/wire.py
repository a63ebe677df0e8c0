"""The protocols of SQS: from a request to an action with parameters, and from a result to an answer.

AWS JSON 1.0, which all current SDKs speak, has the action in a header, parameters and results as JSON objects. The
Query protocol of older SDKs and of curl has parameters as a form or in the query, and results as XML:

    Action=SendMessage&MessageBody=hello&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=String&...

Lists and maps are flat: their members are numbered from 1. The tables say what their names are. Clients that
accept JSON, such as API Gateway, get that, with maps as lists of names and values, and null where AWS says so:

    {"SendMessageResponse": {"SendMessageResult": {..}, "ResponseMetadata": {"RequestId": ".."}}}
    {"Error": {"Code": "..", "Message": "..", "Type": "Sender"}, "RequestId": ".."}
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import escape

import orjson

from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.errors import SqsError, invalid

if TYPE_CHECKING:
    from leveret.protocols.sqs.account import Account
    from leveret.protocols.sqs.queues import SqsQueue

Answer = Response | Awaitable[Response]
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
AWS_JSON = "application/x-amz-json-1.0"
TARGET = "AmazonSQS."
NAMESPACE = "com.amazonaws.sqs#"
XML = "text/xml"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
XMLNS = "http://queue.amazonaws.com/doc/2012-11-05/"
DEPTH_MAX = 8  # names have at most five parts


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
NAMES = {"Messages": "messages", "QueueUrls": "queueUrls"}
"""Names that AWS writes in another way in JSON."""
RESULTS: dict[str, tuple[str, ...]] = {
    "SendMessage": ("MD5OfMessageAttributes", "MD5OfMessageSystemAttributes", "SequenceNumber"),
    "ReceiveMessage": ("messages",),
    "ListQueues": ("queueUrls",),
}
MEMBERS: dict[str, tuple[str, ...]] = {"Messages": ("Attributes", "MD5OfMessageAttributes", "MessageAttributes")}
"""What is null in JSON when a result, or a member of a list, does not have it."""


class JsonProtocol:
    """AWS JSON 1.0."""

    has_text = True
    """Whether it answers with a result that is JSON already; otherwise results have another form."""

    def decode(self, request: Request) -> tuple[str, Parameters]:
        """The action in the header, the parameters in the body."""
        target = request.header(b"x-amz-target")
        if not target.startswith(TARGET):
            raise SqsError("UnknownOperation", f"the header X-Amz-Target is {TARGET} and an action")
        try:
            parameters = orjson.loads(request.body or b"{}")
        except ValueError:
            parameters = None
        if not isinstance(parameters, dict):
            raise SqsError("Serialization", "the body of the request is not a JSON object")
        return target[len(TARGET) :], parameters

    def encode(self, action: str, result: dict[str, Any] | None, request_id: str) -> Response:
        """The result as it is."""
        return answer_text(b"{}" if result is None else orjson.dumps(result), request_id)

    def refuse(self, error: SqsError, request_id: str) -> Response:
        """The kind and the text, and the code of the Query protocol in a header."""
        fault = error.fault
        body = orjson.dumps({"__type": NAMESPACE + (fault.shape or error.kind), "message": _valid(str(error))})
        headers = (("x-amzn-query-error", f"{fault.code};{_side(error)}"), *error.headers)
        return _response(fault.status, body, AWS_JSON, request_id, headers)


class QueryProtocol:
    """The Query protocol, with results as XML."""

    has_text = False

    def decode(self, request: Request) -> tuple[str, Parameters]:
        """The fields of the form, or of the query."""
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

    def encode(self, action: str, result: dict[str, Any] | None, request_id: str) -> Response:
        """The result in an element of its action."""
        inner = "" if result is None else f"<{action}Result>{''.join(_xml(action, result))}</{action}Result>"
        body = (
            f'<?xml version="1.0"?><{action}Response xmlns="{XMLNS}">{inner}'
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
        )
        return _response(200, body.encode(), XML, request_id)

    def refuse(self, error: SqsError, request_id: str) -> Response:
        """The code and the text; an action that is not known has an element of its own."""
        if error.kind == "UnknownOperation":
            return _response(error.fault.status, b"<UnknownOperationException/>", XML, request_id, error.headers)
        body = (
            f'<?xml version="1.0"?><ErrorResponse xmlns="{XMLNS}"><Error><Type>{_side(error)}</Type>'
            f"<Code>{error.fault.code}</Code><Message>{_escaped(error.query_text)}</Message><Detail/></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return _response(error.fault.status, body.encode(), XML, request_id, error.headers)


class QueryJsonProtocol(QueryProtocol):
    """The Query protocol, with results as JSON."""

    def encode(self, action: str, result: dict[str, Any] | None, request_id: str) -> Response:
        """The result in an object of its action."""
        told: dict[str, Any] = {}
        if result is not None:
            told[f"{action}Result"] = {**dict.fromkeys(RESULTS.get(action, ())), **_renamed(result)}
        told["ResponseMetadata"] = {"RequestId": request_id}
        return _response(200, orjson.dumps({f"{action}Response": told}), JSON, request_id)

    def refuse(self, error: SqsError, request_id: str) -> Response:
        """The code and the text; an action that is not known is refused in XML."""
        if error.kind == "UnknownOperation":
            return super().refuse(error, request_id)
        told = {"Code": error.fault.code, "Message": _valid(error.query_text), "Type": _side(error)}
        body = orjson.dumps({"Error": told, "RequestId": request_id})
        return _response(error.fault.status, body, JSON, request_id, error.headers)


Wire = JsonProtocol | QueryProtocol
JSON_WIRE = JsonProtocol()
QUERY_WIRE = QueryProtocol()
QUERY_JSON_WIRE = QueryJsonProtocol()


def query_wire(request: Request) -> Wire:
    """The form of results that a client of the Query protocol accepts."""
    return QUERY_JSON_WIRE if request.headers.get(b"accept", b"").startswith(b"application/json") else QUERY_WIRE


def answer_text(text: bytes, request_id: str) -> Response:
    """The answer by AWS JSON with a result that is JSON already."""
    return Response(200, text, AWS_JSON, (("x-amzn-RequestId", request_id),))


def _response(
    status: int, body: bytes, media_type: str, request_id: str, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    return Response(status, body, media_type, (("x-amzn-RequestId", request_id), *headers))


def _side(error: SqsError) -> str:
    return "Sender" if error.fault.status < 500 else "Receiver"


def _valid(text: str) -> str:
    """Text without halves of surrogate pairs, which JSON in UTF-8 cannot have."""
    return text.encode("utf-8", "replace").decode()


# A request after decoding, the same for all protocols


class SqsCaller(NamedTuple):
    """Who sent a request; without a user when signatures are not checked."""

    user: str | None
    arn: str
    host: str
    tls: bool


@dataclass(slots=True, eq=False)
class SqsCall:
    """An action with its parameters."""

    account: Account
    wire: Wire
    request_id: str
    action: str
    parameters: Parameters
    caller: SqsCaller
    request: Request

    def answer(self, result: dict[str, Any] | None = None) -> Response:
        return self.wire.encode(self.action, result, self.request_id)

    def durable(self, commit_batch: int, result: dict[str, Any] | None = None) -> Answer:
        """The answer with a result, when a commit batch of the journal is on the disk."""
        return self.account.async_broker.when_durable(commit_batch, self.answer(result))

    @property
    def in_json(self) -> bool:
        return self.wire.has_text

    def answer_text(self, text: bytes) -> Response:
        assert self.wire.has_text, "text is made only for that protocol"
        return answer_text(text, self.request_id)

    def queue(self) -> SqsQueue:
        return self.account.queues.of_url(required(self.parameters, "QueueUrl"))

    def url(self, queue: SqsQueue) -> str:
        """The URL of a queue, on the server as this client sees it."""
        server = f"{'https' if self.caller.tls else 'http'}://{self.request.header(b'host')}"
        return f"{server}/{self.account.settings.account}/{quote(queue.name, safe='', errors='surrogateescape')}"


# Parameters of the Query protocol


def _tree(fields: dict[str, str]) -> dict[str, Any]:
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


# Results of the Query protocol


def _xml(action: str, structure: dict[str, Any]) -> Iterator[str]:
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
    if isinstance(value, dict):
        return "".join(_xml(action, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return _escaped(str(value))


def _escaped(text: str) -> str:
    """Text as XML has it; what it cannot have is replaced."""
    # A carriage return as it is would be read as a line feed.
    return escape(FORBIDDEN.sub("\ufffd", text), {"\r": "&#13;", '"': "&quot;"})


def _renamed(structure: dict[str, Any]) -> dict[str, Any]:
    return {NAMES.get(name, name): _in_json(name, value) for name, value in structure.items()}


def _in_json(name: str, value: Any) -> Any:
    kind = OUTPUTS.get(name)
    if isinstance(kind, QueryMap):
        return [{kind.key: key, kind.value: _in_json("", each)} for key, each in value.items()]
    if isinstance(value, list):
        return [_member(name, each) for each in value]
    return _renamed(value) if isinstance(value, dict) else value


def _member(name: str, value: Any) -> Any:
    return {**dict.fromkeys(MEMBERS.get(name, ())), **_renamed(value)} if isinstance(value, dict) else value
