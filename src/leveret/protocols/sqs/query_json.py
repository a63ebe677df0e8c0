"""Results of the Query protocol as JSON, for clients that accept it, such as API Gateway.

    {"SendMessageResponse": {"SendMessageResult": {..}, "ResponseMetadata": {"RequestId": ".."}}}
    {"Error": {"Code": "..", "Message": "..", "Type": "Sender"}, "RequestId": ".."}

A map is a list of names and values. What a result has not is null where AWS says so.
"""

from typing import Any

import orjson

from leveret.protocols.http.response import Response
from leveret.protocols.sqs import query_protocol
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.json_protocol import valid
from leveret.protocols.sqs.query_protocol import OUTPUTS, QueryMap

MEDIA_TYPE = "application/json"
NAMES = {"Messages": "messages", "QueueUrls": "queueUrls"}
"""Names that AWS writes in another way here."""
RESULTS: dict[str, tuple[str, ...]] = {
    "SendMessage": ("MD5OfMessageAttributes", "MD5OfMessageSystemAttributes", "SequenceNumber"),
    "ReceiveMessage": ("messages",),
    "ListQueues": ("queueUrls",),
}
MEMBERS: dict[str, tuple[str, ...]] = {"Messages": ("Attributes", "MD5OfMessageAttributes", "MessageAttributes")}
"""What is null when a result, or a member of a list, does not have it."""

decode = query_protocol.decode
answer_text = None  # results have another form than in the JSON protocol


def encode(action: str, result: dict[str, Any] | None, request_id: str) -> Response:
    """The answer with a result."""
    told: dict[str, Any] = {}
    if result is not None:
        told[f"{action}Result"] = {**dict.fromkeys(RESULTS.get(action, ())), **_structure(result)}
    told["ResponseMetadata"] = {"RequestId": request_id}
    return Response(200, orjson.dumps({f"{action}Response": told}), MEDIA_TYPE, (("x-amzn-RequestId", request_id),))


def _structure(structure: dict[str, Any]) -> dict[str, Any]:
    return {NAMES.get(name, name): _value(name, value) for name, value in structure.items()}


def _value(name: str, value: Any) -> Any:
    kind = OUTPUTS.get(name)
    if isinstance(kind, QueryMap):
        return [{kind.key: key, kind.value: _value("", each)} for key, each in value.items()]
    if isinstance(value, list):
        return [_member(name, each) for each in value]
    return _structure(value) if isinstance(value, dict) else value


def _member(name: str, value: Any) -> Any:
    return {**dict.fromkeys(MEMBERS.get(name, ())), **_structure(value)} if isinstance(value, dict) else value


def refuse(error: SqsError, request_id: str) -> Response:
    """The answer to a request that is refused."""
    if error.kind == "UnknownOperation":
        return query_protocol.refuse(error, request_id)
    fault = error.fault
    side = "Sender" if fault.status < 500 else "Receiver"
    told = {"Code": fault.code, "Message": valid(error.query_text), "Type": side}
    body = orjson.dumps({"Error": told, "RequestId": request_id})
    return Response(fault.status, body, MEDIA_TYPE, (("x-amzn-RequestId", request_id), *error.headers))
