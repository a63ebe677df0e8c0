"""The OpenAPI document, made of the same rows that route and check requests."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from leveret.protocols.http.fields import Text
from leveret.protocols.http.idempotency import KEY_HELP
from leveret.protocols.http.problem import PROBLEM, RETRIED
from leveret.protocols.http.response import JSON
from leveret.protocols.rest.operation import PATH_FIELDS, VHOST_FIELD, RestOperation
from leveret.runtime.outgoing import NAME_CHARS_MAX
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

# Links: which operations can follow an answer, and which of its values they take. A link passes the parameters of the
# path that both operations have, and the virtual host. Expressions such as `$response.body#/messages/0/receipt_handle`
# are those of the OpenAPI specification.
COMPONENTS = "#/components/links/"
SUCCESSES = range(200, 300)
FIRST = "$response.body#/messages/0"  # the first message of the answer
_QUEUE, _STREAM, _SINK = "/queues/{queue}", "/streams/{stream}", "/sinks/{sink}"
_MESSAGE, _RESERVATION = f"{_QUEUE}/messages/{{message_id}}", f"{_QUEUE}/reservations/{{group}}"
_GROUP = f"{_STREAM}/groups/{{group}}"


class Link(NamedTuple):
    """An operation that can follow another one; `parameters` and `body` are values or expressions."""

    source: str
    target: str
    parameters: Mapping[str, str] = {}
    body: Mapping[str, Any] | None = None


def _settling() -> Iterator[Link]:
    """A delivery can be settled or kept, by the receipt that came with it."""
    source, receipt = f"POST {_QUEUE}/dequeue", f"{FIRST}/receipt_handle"
    which = {"path.message_id": f"{FIRST}/message_id"}
    for target in (
        f"DELETE {_MESSAGE}",
        f"PATCH {_MESSAGE}/visibility",
        f"POST {_MESSAGE}/nack",
        f"POST {_MESSAGE}/reject",
        f"POST {_MESSAGE}/finish",
    ):
        yield Link(source, target, which, {"receipt_handle": receipt})
    yield Link(source, f"POST {_QUEUE}/acknowledge", {}, {"receipt_handles": [receipt]})
    yield Link(source, f"GET {_QUEUE}/processed/{{message_id}}", which)


def _reservations() -> Iterator[Link]:
    """What is reserved can be read, kept, acknowledged and given back."""
    source, number = f"POST {_RESERVATION}", "$response.body#/end"
    yield Link(f"PUT {_QUEUE}", source)
    yield Link(source, f"GET {_RESERVATION}/messages", {"query.reservation": number})
    yield Link(source, source, {}, {"start": number})
    for method in ("GET", "PATCH", "DELETE"):
        yield Link(source, f"{method} {_RESERVATION}")


def _members() -> Iterator[Link]:
    """Members of a group read, commit and leave."""
    join, poll = f"POST {_GROUP}/join", f"POST {_GROUP}/poll"
    member = {"member": "$request.body#/member"}
    joined = {**member, "generation": "$response.body#/generation"}
    polled = {**member, "generation": "$request.body#/generation", "offsets": "$response.body#/offsets"}
    yield Link(f"PUT {_STREAM}", f"PUT {_GROUP}")
    yield Link(join, f"POST {_GROUP}/leave", {}, member)
    yield Link(join, f"POST {_GROUP}/heartbeat", {}, joined)
    yield Link(join, f"POST {_GROUP}/commit", {}, {**joined, "offsets": "$response.body#/offsets"})
    yield Link(join, poll, {}, {**joined, "offsets": "$response.body#/offsets"})
    yield Link(poll, f"POST {_GROUP}/commit", {}, polled)
    yield Link(poll, poll, {}, polled)


def _lists() -> Iterator[Link]:
    """A list leads to what it names, to its next page, and to making one more."""
    for path, name in ((_QUEUE, "queue"), (_STREAM, "stream"), ("/exchanges/{exchange}", "exchange")):
        source = f"GET /{name}s"
        yield Link(source, f"GET {path}", {f"path.{name}": f"$response.body#/{name}s/0/name"})
        yield Link(source, source, {"query.after": "$response.body#/next"})
        yield Link(source, f"PUT {path}")


_PART = "$request.path.part"
LINKS: tuple[Link, ...] = (
    Link(f"POST {_QUEUE}/messages", f"POST {_QUEUE}/dequeue"),
    Link(f"POST {_QUEUE}/messages", f"GET {_QUEUE}/messages"),
    Link(f"POST {_QUEUE}/messages/batch", f"POST {_QUEUE}/dequeue"),
    Link(
        f"GET {_QUEUE}/scheduled",
        f"DELETE {_QUEUE}/scheduled/{{message_id}}",
        {"path.message_id": f"{FIRST}/message_id"},
    ),
    Link(f"POST {_STREAM}/records", f"GET {_STREAM}/records", {"query.partition": "$response.body#/partition"}),
    Link(f"GET {_STREAM}/records", f"GET {_STREAM}/records", {"query.offset": "$response.body#/next_offset"}),
    Link(
        f"PUT {_SINK}/parts/{{part}}/{{piece}}",
        f"POST {_SINK}/batches/{{batch}}",
        {},
        {"parts": [{"part": _PART, "pieces": 1}], "rows": "$response.body#/rows"},
    ),
    Link(f"PUT {_SINK}/parts/{{part}}/{{piece}}", f"POST {_SINK}/abort", {}, {"parts": [_PART]}),
    Link(f"POST {_SINK}/batches/{{batch}}", f"DELETE {_SINK}"),
    *_settling(),
    *_reservations(),
    *_members(),
    *_lists(),
)


def label(operation: RestOperation) -> str:
    """How links name an operation."""
    return f"{operation.method} {operation.path}"


def operation_id(operation: RestOperation) -> str:
    """The operationId: the name of the function, and the path where functions have the same name."""
    path = operation.path.replace("{", "").replace("}", "").replace("_", "")
    return operation.run.__name__ + "".join(part.title() for part in path.split("/"))


def path_parameters(operation: RestOperation) -> list[str]:
    """The names of the parameters of the path."""
    return [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]


class Links:
    """The links between some operations."""

    def __init__(self, operations: Iterable[RestOperation]) -> None:
        """`operations` have every operation that LINKS names."""
        by_label = {label(each): each for each in operations}
        self.components: dict[str, Json] = {}
        """Each link once: responses refer to it."""
        self._names: dict[str, list[str]] = {name: [] for name in by_label}
        for link in (*LINKS, *_to_made(by_label.values())):
            self._add(link, by_label[link.source], by_label[link.target])

    def after(self, operation: RestOperation, status: int) -> Json:
        names = self._names[label(operation)] if status in SUCCESSES else []
        return {"links": {name: {"$ref": COMPONENTS + name} for name in names}} if names else {}

    def _add(self, link: Link, source: RestOperation, target: RestOperation) -> None:
        name = operation_id(target)
        described: Json = {"operationId": name, "parameters": {**_passed(source, target), **link.parameters}}
        if link.body is not None:
            described["requestBody"] = link.body
        if link.parameters or link.body is not None:
            name = f"{name}.{operation_id(source)}"
        self.components[name] = described
        self._names[link.source].append(name)


def _passed(source: RestOperation, target: RestOperation) -> Json:
    """The parameters that a link passes on as they are."""
    shared = [name for name in path_parameters(target) if name in path_parameters(source)]
    return {f"path.{name}": f"$request.path.{name}" for name in shared} | {"query.vhost": "$request.query.vhost"}


def _to_made(operations: Iterable[RestOperation]) -> Iterator[Link]:
    """A resource that PUT made leads to all operations whose path names this resource and no other one."""
    known = list(operations)
    for source in known:
        if source.method == "PUT" and source.upload is None:
            for target in known:
                if target is not source and path_parameters(target) == path_parameters(source):
                    yield Link(label(source), label(target))


def document(operations: Iterable[RestOperation]) -> Json:
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


def _operation(operation: RestOperation, links: Links) -> Json:
    described: Json = {
        "summary": operation.summary,
        "operationId": operation_id(operation),
        "tags": [operation.path.split("/")[1]],
        "parameters": [*_parameters(operation)],
        "responses": {**_answers(operation, links), **_refusals()},
    }
    needed = requirement(operation.registered.rule)
    if needed:
        described["description"] = f"Needs {needed}."
    if operation.body is not None:
        content = {JSON: {"schema": operation.body.schema}}
        described["requestBody"] = {"required": operation.body.needs_some, "content": content}
    if operation.upload is not None:
        schema = {"type": "string", "format": "binary", "description": operation.upload}
        described["requestBody"] = {"required": True, "content": {BYTES: {"schema": schema}}}
    return described


def _parameters(operation: RestOperation) -> Iterable[Json]:
    for name in path_parameters(operation):
        yield {"name": name, "in": "path", "required": True, "schema": PATH_FIELDS[name].schema}
    for name, field in operation.query.fields.items() if operation.query else ():
        kind = {"content": {JSON: {"schema": field.schema}}} if field.is_json else {"schema": field.schema}
        yield {"name": name, "in": "query", "required": field.required, **kind}
    yield {"name": "vhost", "in": "query", "required": False, "schema": VHOST_FIELD.schema}
    repeatable = {} if operation.method == "GET" else {"Idempotency-Key": KEY}
    for name, field in {**repeatable, **operation.headers}.items():
        yield {"name": name, "in": "header", "required": False, "schema": field.schema}


def _answers(operation: RestOperation, links: Links) -> Json:
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
