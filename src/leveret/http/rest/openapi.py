"""The OpenAPI document, made of the same rows that route and check requests."""

from collections.abc import Iterable
from typing import Any

from leveret.embedded.broker import VHOST
from leveret.http.idempotency import KEY_HELP
from leveret.http.problem import PROBLEM
from leveret.http.response import JSON
from leveret.http.rest.operation import Operation
from leveret.version import version

Json = dict[str, Any]
VHOST_HELP = "The virtual host that the names are in."

BYTES = "application/octet-stream"
REFUSALS = {
    "400": "The request makes no sense as it is.",
    "401": "Nobody is logged in.",
    "403": "The caller may not do this.",
    "404": "It is not there.",
    "409": "It contradicts what there is, or the lease has ended.",
    "413": "The body is too large.",
    "414": "The path and the query are too long.",
    "422": "This kind of queue or broker does not do that; or the Idempotency-Key was used with another body.",
    "431": "The headers are too large.",
    "429": "Too many requests, or a limit is reached: wait as long as Retry-After says.",
    "503": "The server is stopping, or has too much to do.",
    "507": "The disk is full.",
}
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
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
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
        },
    }


def _operation(operation: Operation) -> Json:
    described: Json = {
        "summary": operation.summary,
        "operationId": operation.run.__name__ + _noun(operation.path),
        "tags": [operation.path.split("/")[1]],
        "parameters": [*_parameters(operation)],
        "responses": {**{str(status): _answer(*row) for status, row in operation.answers.items()}, **_refusals()},
    }
    if operation.need is not None:
        scope = f"{operation.need.access}:{{{operation.need.kind}}}"
        described["description"] = f"Needs {operation.need.access} access to the {operation.need.kind}: scope {scope}."
    if operation.body is not None:
        required = "required" in operation.body.schema
        described["requestBody"] = {"required": required, "content": {JSON: {"schema": operation.body.schema}}}
    if operation.upload is not None:
        schema = {"type": "string", "format": "binary", "description": operation.upload}
        described["requestBody"] = {"required": True, "content": {BYTES: {"schema": schema}}}
    return described


def _noun(path: str) -> str:
    """What distinguishes operations of the same name."""
    return "".join(part.title() for part in path.replace("{", "").replace("}", "").replace("_", "").split("/"))


def _parameters(operation: Operation) -> Iterable[Json]:
    for part in operation.path.split("/"):
        if part.startswith("{"):
            schema = {"type": "string", "minLength": 1, "maxLength": 255}
            yield {"name": part[1:-1], "in": "path", "required": True, "schema": schema}
    for name, field in operation.query.fields.items() if operation.query else ():
        yield {"name": name, "in": "query", "required": field.required, "schema": field.schema}
    if operation.tag is None:
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "default": VHOST}
        yield {"name": "vhost", "in": "query", "required": False, "description": VHOST_HELP, "schema": schema}
    repeatable = {} if operation.method == "GET" else {"Idempotency-Key": KEY_HELP}
    for name, help in {**repeatable, **operation.headers}.items():
        schema = {"type": "string", "minLength": 1, "maxLength": 1024}
        yield {"name": name, "in": "header", "required": False, "description": help, "schema": schema}


def _answer(text: str, schema: Any) -> Json:
    """An answer; one that is not JSON says so in its schema."""
    if schema is None:
        return {"description": text}
    return {"description": text, "content": {schema.get("contentMediaType", JSON): {"schema": schema}}}


def _refusals() -> Json:
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": text, "content": content} for status, text in REFUSALS.items()}
