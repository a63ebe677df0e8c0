"""The OpenAPI document, made of the same rows that route and check requests."""

from collections.abc import Iterable
from typing import Any

from leveret.embedded.outgoing import NAME_CHARS_MAX
from leveret.protocols.http.idempotency import KEY_HELP
from leveret.protocols.http.problem import PROBLEM, RETRIED
from leveret.protocols.http.response import JSON
from leveret.protocols.rest.fields import Text
from leveret.protocols.rest.links import Links, operation_id, path_parameters
from leveret.protocols.rest.operation import PATH_FIELDS, VHOST_FIELD, Operation
from leveret.security.authorisation import requirement
from leveret.version import version

Json = dict[str, Any]
KEY = Text(KEY_HELP, NAME_CHARS_MAX, 1)

BYTES = "application/octet-stream"
REFUSED = 400  # and above
REFUSALS = {
    400: "The request does not match this document, or contradicts itself.",
    401: "The request has no credentials, or wrong ones.",
    403: "The user has no permission for this, or the request comes from a page of another origin.",
    404: "The virtual host, or what the path names, does not exist.",
    408: "The request was not complete in time.",
    409: "It contradicts the state of the server, or the lease has ended.",
    413: "The body or the message is too large.",
    414: "The path and the query are too long.",
    417: "The server does not know the expectation of the header Expect.",
    421: "The header Host has a name that this server does not answer to.",
    422: "This kind of queue or broker does not do that; or the Idempotency-Key was used with another body.",
    429: "Too many requests, or a limit is reached: wait as long as Retry-After says.",
    431: "The headers are too large.",
    500: "The server failed; its log has the cause.",
    502: "Another server, which this one asked, did not answer.",
    503: "The server is stopping, or overloaded: wait as long as Retry-After says.",
    507: "The disk is full.",
}
"""What any operation may answer. 405 is not among them: it is for methods that a path does not have."""
RETRY_AFTER: Json = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
PROBLEM_SCHEMA: Json = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What to do next."},
    },
}


def document(operations: Iterable[Operation]) -> Json:
    """The description of operations."""
    rows = tuple(operations)
    links = Links(rows)
    paths: dict[str, Json] = {}
    for operation in rows:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, links)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Leveret", "version": version(), "summary": "Queues, exchanges, streams and messages."},
        "security": [{"bearer": []}, {"basic": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key or a JSON Web Token."},
                "basic": {"type": "http", "scheme": "basic"},
            },
            "schemas": {"Problem": PROBLEM_SCHEMA},
            "responses": {str(status): _refusal(status, text) for status, text in REFUSALS.items()},
            "links": links.components,
        },
    }


def _operation(operation: Operation, links: Links) -> Json:
    described: Json = {
        "summary": operation.summary,
        "operationId": operation_id(operation),
        "tags": [operation.path.split("/")[1]],
        "parameters": [*_parameters(operation)],
        "responses": {**_answers(operation, links), **_refusals()},
    }
    needed = requirement(operation.rule)
    if needed:
        described["description"] = f"Needs {needed}."
    if operation.body is not None:
        content = {JSON: {"schema": operation.body.schema}}
        described["requestBody"] = {"required": operation.body.needs_some, "content": content}
    if operation.upload is not None:
        schema = {"type": "string", "format": "binary", "description": operation.upload}
        described["requestBody"] = {"required": True, "content": {BYTES: {"schema": schema}}}
    return described


def _parameters(operation: Operation) -> Iterable[Json]:
    for name in path_parameters(operation):
        yield {"name": name, "in": "path", "required": True, "schema": PATH_FIELDS[name].schema}
    for name, field in operation.query.fields.items() if operation.query else ():
        kind = {"content": {JSON: {"schema": field.schema}}} if field.is_json else {"schema": field.schema}
        yield {"name": name, "in": "query", "required": field.required, **kind}
    yield {"name": "vhost", "in": "query", "required": False, "schema": VHOST_FIELD.schema}
    repeatable = {} if operation.method == "GET" else {"Idempotency-Key": KEY}
    for name, field in {**repeatable, **operation.headers}.items():
        yield {"name": name, "in": "header", "required": False, "schema": field.schema}


def _answers(operation: Operation, links: Links) -> Json:
    return {
        str(status): {**_answer(status, *row), **links.after(operation, status)}
        for status, row in operation.answers.items()
    }


def _answer(status: int, text: str, schema: Any) -> Json:
    """An answer; one that is not JSON says so in its schema."""
    if status >= REFUSED:
        return _refusal(status, text)
    if schema is None:
        return {"description": text}
    return {"description": text, "content": {schema.get("contentMediaType", JSON): {"schema": schema}}}


def _refusals() -> Json:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in REFUSALS}


def _refusal(status: int, text: str) -> Json:
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    headers = {"headers": RETRY_AFTER} if status in RETRIED else {}
    return {"description": text, **headers, "content": content}
