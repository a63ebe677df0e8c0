"""AWS JSON 1.0, which all current SDKs speak: the action in a header, parameters and results as JSON objects."""

from typing import Any

import orjson

from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.parameters import Parameters

MEDIA_TYPE = "application/x-amz-json-1.0"
TARGET = "AmazonSQS."
NAMESPACE = "com.amazonaws.sqs#"


def decode(request: Request) -> tuple[str, Parameters]:
    """The action and the parameters of a request."""
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


def encode(action: str, result: dict[str, Any] | None, request_id: str) -> Response:
    """The answer with a result."""
    return answer_text(b"{}" if result is None else orjson.dumps(result), request_id)


def answer_text(text: bytes, request_id: str) -> Response:
    """The answer with a result that is JSON already."""
    return Response(200, text, MEDIA_TYPE, (("x-amzn-RequestId", request_id),))


def refuse(error: SqsError, request_id: str) -> Response:
    """The answer to a request that is refused."""
    fault = error.fault
    body = orjson.dumps({"__type": NAMESPACE + fault.shape, "message": valid(str(error))})
    side = "Sender" if fault.status < 500 else "Receiver"
    headers = (("x-amzn-RequestId", request_id), ("x-amzn-query-error", f"{fault.code};{side}"), *error.headers)
    return Response(fault.status, body, MEDIA_TYPE, headers)


def valid(text: str) -> str:
    """Text without halves of surrogate pairs, which JSON in UTF-8 cannot have."""
    return text.encode("utf-8", "replace").decode()
