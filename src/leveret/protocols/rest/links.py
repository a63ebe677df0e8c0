"""Links of the OpenAPI document: which operations can follow an answer, and which of its values they take.

A link passes the parameters of the path that both operations have, and the virtual host. Expressions such as
`$response.body#/messages/0/receipt_handle` are those of the OpenAPI specification.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from leveret.protocols.rest.operation import Operation

Json = dict[str, Any]
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


def label(operation: Operation) -> str:
    """How links name an operation."""
    return f"{operation.method} {operation.path}"


def operation_id(operation: Operation) -> str:
    """The operationId: the name of the function, and the path where functions have the same name."""
    path = operation.path.replace("{", "").replace("}", "").replace("_", "")
    return operation.run.__name__ + "".join(part.title() for part in path.split("/"))


def path_parameters(operation: Operation) -> list[str]:
    """The names of the parameters of the path."""
    return [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]


class Links:
    """The links between some operations."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        """`operations` have every operation that LINKS names."""
        by_label = {label(each): each for each in operations}
        self.components: dict[str, Json] = {}
        """Each link once: responses refer to it."""
        self._names: dict[str, list[str]] = {name: [] for name in by_label}
        for link in (*LINKS, *_to_made(by_label.values())):
            self._add(link, by_label[link.source], by_label[link.target])

    def after(self, operation: Operation, status: int) -> Json:
        """The links of an answer."""
        names = self._names[label(operation)] if status in SUCCESSES else []
        return {"links": {name: {"$ref": COMPONENTS + name} for name in names}} if names else {}

    def _add(self, link: Link, source: Operation, target: Operation) -> None:
        name = operation_id(target)
        described: Json = {"operationId": name, "parameters": {**_passed(source, target), **link.parameters}}
        if link.body is not None:
            described["requestBody"] = link.body
        if link.parameters or link.body is not None:
            name = f"{name}.{operation_id(source)}"
        self.components[name] = described
        self._names[link.source].append(name)


def _passed(source: Operation, target: Operation) -> Json:
    """The parameters that a link passes on as they are."""
    shared = [name for name in path_parameters(target) if name in path_parameters(source)]
    return {f"path.{name}": f"$request.path.{name}" for name in shared} | {"query.vhost": "$request.query.vhost"}


def _to_made(operations: Iterable[Operation]) -> Iterator[Link]:
    """A resource that PUT made leads to all operations whose path names this resource and no other one."""
    known = list(operations)
    for source in known:
        if source.method == "PUT" and source.upload is None:
            for target in known:
                if target is not source and path_parameters(target) == path_parameters(source):
                    yield Link(label(source), label(target))
