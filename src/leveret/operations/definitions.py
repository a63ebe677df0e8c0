"""Definitions as RabbitMQ's JSON files have them, a section at a time: exported by one function for each section, and
imported by another. An import merges: what contradicts something that exists is left out and told, and so is what
Leveret does not have.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument, LeveretError, NotSupported, PreconditionFailed, QueueNotFound
from leveret.core.jsonable import decode_table, encode
from leveret.core.names import RESERVED_PREFIX
from leveret.core.policy import Policy
from leveret.core.topology import Vhost
from leveret.operations import policies, vhosts
from leveret.operations.alerts import book_of
from leveret.operations.context import OperationContext
from leveret.operations.operation import ADMINISTERED, changes, looks
from leveret.security import passwords
from leveret.security.users import TAGS, User, tag_set

OBJECTS_MAX = 10_000  # in one answer: the server does nothing else meanwhile
DETAILS = ("vhost", "name", "tags", "attributes", "created_s", "modified_s")
PATTERNS = ("user", "vhost", "configure", "write", "read")
KEY_PATTERNS = ("user", "vhost", "exchange", "write", "read")

T = TypeVar("T")
Row = Mapping[str, Any]
Rows = Iterable[dict[str, Any]]

# Exports


def vhosts_of(context: OperationContext) -> list[Vhost]:
    """Every virtual host, by name."""
    return [virtual_host for _, virtual_host in sorted(context.core.topology.vhosts.items())]


def export_policies(context: OperationContext) -> Rows:
    """Policies."""
    for virtual_host in vhosts_of(context):
        for policy in virtual_host.policies.values():
            row = policy.to_dict()
            del row["operator"]
            yield {"vhost": virtual_host.name, **row}


def export_exchanges(context: OperationContext) -> Rows:
    """Exchanges but those that every virtual host has."""
    for virtual_host in vhosts_of(context):
        for exchange in virtual_host.exchanges.values():
            if exchange.name and not exchange.name.startswith(RESERVED_PREFIX):
                yield {"vhost": virtual_host.name, **exchange.to_dict()}


def export_queues(context: OperationContext) -> Rows:
    """Queues but those that belong to a connection."""
    for virtual_host in vhosts_of(context):
        for queue in virtual_host.queues.values():
            if queue.owner is None:
                yield {
                    "vhost": virtual_host.name,
                    "name": queue.name,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": encode(queue.arguments or {}),
                }


def export_bindings(context: OperationContext) -> Rows:
    """Bindings but those of queues that belong to a connection."""
    for virtual_host in vhosts_of(context):
        for binding in virtual_host.bindings():
            if getattr(binding.destination, "owner", None) is None:
                yield {"vhost": virtual_host.name, **binding.to_dict()}


def export_queue_details(context: OperationContext) -> Rows:
    """Tags of queues, and what SQS knows about them beside their arguments; access keys are secrets and stay here."""
    for row in context.core.catalog.of(Kind.QUEUE_DETAILS):
        yield {**{name: row[name] for name in DETAILS}, "attributes": set_only(row["attributes"])}


def set_only(attributes: dict[str, str]) -> dict[str, str]:
    """Attributes without those that were taken away, which are kept empty."""
    return {name: value for name, value in attributes.items() if value != ""}


# Imports


def field(row: Row, name: str, kind: type[T], default: T | None = None) -> T:
    """The value of a field; without a default it must be there."""
    value = row.get(name, default)
    if value is None:
        raise InvalidArgument(f"it has no {name}")
    if not isinstance(value, kind):
        raise InvalidArgument(f"its {name} is of the type {type(value).__name__}, not {kind.__name__}")
    return value


def text(row: Row, name: str) -> str:
    """A field that is text."""
    return field(row, name, str)


FLAGS = {"durable": True, "auto_delete": False}


def flags(row: Row, defaults: Mapping[str, bool]) -> dict[str, bool]:
    """Fields that are true or false."""
    return {name: field(row, name, bool, default) for name, default in defaults.items()}


def arguments(row: Row) -> dict[str, Any]:
    """The arguments of a queue, an exchange or a binding."""
    return decode_table("arguments", field(row, "arguments", dict, {}))


def put_vhost(context: OperationContext, row: Row) -> None:
    """A virtual host; what is said about it is in the object, or in the `metadata` of newer files."""
    told = {**row, **field(row, "metadata", dict, {})}
    queue_type = None if told.get("default_queue_type") == vhosts.UNDEFINED else told.get("default_queue_type")
    tags = field(told, "tags", list) if "tags" in told else None
    vhosts.add(context, text(row, "name"), told.get("description"), tags, queue_type)


def put_user(context: OperationContext, row: Row) -> None:
    """A user, whose password was hashed by who read the file; tags that mean nothing here are left out."""
    if "password" in row:
        raise InvalidArgument(
            f"a user has a password of at least {context.access.password_chars_min} characters and at most "
            f"{passwords.PASSWORD_BYTES_MAX} bytes, or a password_hash, not both: correct it"
        )
    kept = {name: value for name, value in row.items() if name != "hashing_algorithm"}
    told = {"password_hash": passwords.stored_hash(row), "tags": tag_set(row.get("tags", ())) & TAGS}
    context.access.import_user(User.from_dict({**kept, **told}))


def put_policy(context: OperationContext, row: Row, operator: bool = False) -> None:
    """A policy."""
    policy = Policy(
        text(row, "name"),
        text(row, "pattern"),
        field(row, "priority", int, 0),
        field(row, "apply-to", str, "all"),
        field(row, "definition", dict),
        operator,
    )
    context.core.set_policy(text(row, "vhost"), policy)


def put_parameter(context: OperationContext, row: Row) -> None:
    """A parameter: that is where RabbitMQ keeps the policies of operators and the limits of virtual hosts."""
    component, value = text(row, "component"), field(row, "value", dict)
    if component == policies.OPERATOR_POLICY:
        put_policy(context, {**value, "name": row.get("name"), "vhost": row["vhost"]}, operator=True)
    else:
        policies.set_parameter(context, component, "", value, text(row, "vhost"))


def put_exchange(context: OperationContext, row: Row) -> None:
    """An exchange."""
    name, kind, known = text(row, "name"), text(row, "type"), FLAGS | {"internal": False}
    context.core.declare_exchange(text(row, "vhost"), name, kind, **flags(row, known), arguments=arguments(row))


def put_queue(context: OperationContext, row: Row) -> None:
    """A queue."""
    given = arguments(row)
    if "type" in row:
        given.setdefault("x-queue-type", text(row, "type"))
    context.core.declare_queue(text(row, "vhost"), text(row, "name"), given, **flags(row, FLAGS))


def put_binding(context: OperationContext, row: Row) -> None:
    """A binding."""
    source, destination, key = (text(row, name) for name in ("source", "destination", "routing_key"))
    kind = text(row, "destination_type")
    context.core.bind(text(row, "vhost"), source, destination, key, arguments(row), kind)


def put_queue_details(context: OperationContext, row: Row) -> None:
    """Tags of a queue, and the attributes that only SQS knows; one that has others keeps them."""
    vhost, name = text(row, "vhost"), text(row, "name")
    if name not in context.core.topology.vhost(vhost).queues:
        raise QueueNotFound(f"no queue '{name}' in vhost '{vhost}': it was left out")
    tags, attributes = _texts(row, "tags"), _texts(row, "attributes")
    if context.check_details is None:
        raise NotSupported("details of queues are checked by SQS: ask the server")
    kept = context.check_details(name, tags, attributes)
    now_s = context.core.now_ms // 1000
    times = {each: field(row, each, int, now_s) for each in ("created_s", "modified_s")}
    stored = context.core.catalog.get(Kind.QUEUE_DETAILS, vhost=vhost, name=name)
    if stored is not None and (stored["tags"], set_only(stored["attributes"])) != (tags, kept):
        raise PreconditionFailed("the queue has other tags or attributes: change those")
    if stored is None:
        details = {"vhost": vhost, "name": name, "tags": tags, "attributes": kept, "purges": 0, **times}
        context.core.define(Kind.QUEUE_DETAILS, details)


def put_alert_receiver(context: OperationContext, row: Row) -> None:
    """A receiver of notifications; secrets are in no file, so that a new one is left out until it has them."""
    book_of(context).put_receiver({name: value for name, value in row.items() if name != "vhost"})


def _texts(row: Row, name: str) -> dict[str, str]:
    """A map of words to words."""
    found: dict[str, str] = field(row, name, dict, {})
    if not all(isinstance(value, str) for value in found.values()):
        raise InvalidArgument(f"its {name} are not all text")
    return found


SECTIONS: dict[str, tuple[Callable[[OperationContext], Rows], Callable[[OperationContext, Row], object]]] = {
    "vhosts": (lambda context: (virtual_host.to_dict() for virtual_host in vhosts_of(context)), put_vhost),
    "users": (  # with what is needed to check their passwords
        lambda context: (user.to_dict() | passwords.exported(user.password_hash) for user in context.access.users),
        put_user,
    ),
    "permissions": (
        lambda context: (row.to_dict() for row in context.access.permissions),
        lambda context, row: context.access.set_permission(*(text(row, name) for name in PATTERNS)),
    ),
    "topic_permissions": (
        lambda context: (row.to_dict() for row in context.access.permissions.topics()),
        lambda context, row: context.access.set_topic_permission(*(text(row, name) for name in KEY_PATTERNS)),
    ),
    "parameters": (policies.list_parameters, put_parameter),
    "global_parameters": (
        policies.list_global,
        lambda context, row: policies.set_global(context, text(row, "name"), row.get("value")),
    ),
    "policies": (export_policies, put_policy),
    "exchanges": (export_exchanges, put_exchange),
    "queues": (export_queues, put_queue),
    "bindings": (export_bindings, put_binding),
    "queue_details": (export_queue_details, put_queue_details),
    "alert_rules": (
        lambda context: (rule.to_dict() for rule in book_of(context).changed_rules()),
        lambda context, row: book_of(context).put_rule(row),
    ),
    "alert_receivers": (
        lambda context: (receiver.exported() for receiver in book_of(context).receivers()),
        put_alert_receiver,
    ),
}
"""How each section is exported and imported, in the order in which one needs the other."""


def check_section(name: str) -> None:
    """Refuse a section that there is not."""
    if name not in SECTIONS:
        raise InvalidArgument(f"there is no section {name!r}: those that there are are {', '.join(SECTIONS)}")


def take_in(context: OperationContext, section: str, objects: list[Any], vhost: str = "/") -> dict[str, Any]:
    """Add the objects of a section; `vhost` is for those that do not name theirs."""
    check_section(section)
    skipped = []
    for each in objects:
        try:
            if not isinstance(each, dict):
                raise InvalidArgument("it is not an object")
            SECTIONS[section][1](context, {"vhost": vhost, **each})
        except LeveretError as error:
            skipped.append({"object": described(section, each), "reason": str(error)})
    return {"imported": len(objects) - len(skipped), "skipped": skipped}


def described(section: str, row: Any) -> str:
    """An object as errors call it: the parts of its name."""
    known = ("user", "component", "source", "destination", "routing_key", "exchange", "name", "vhost")
    parts = [f"{name} {row[name]!r}" for name in known if name in row] if isinstance(row, dict) else []
    return f"{section}: {', '.join(parts) or 'an object without a name'}"


def give_out(context: OperationContext, section: str, offset: int = 0) -> dict[str, Any]:
    """Some objects of a section, from a place on; `next` is where to go on, None at the end."""
    check_section(section)
    start = max(0, offset)
    page = list(islice(SECTIONS[section][0](context), start, start + OBJECTS_MAX))
    return {"objects": page, "next": offset + OBJECTS_MAX if len(page) == OBJECTS_MAX else None}


OPERATIONS = (
    *looks("catalog", ADMINISTERED, {"definitions.export": give_out}),
    *changes("catalog", ADMINISTERED, {"definitions.import": take_in}),
)
