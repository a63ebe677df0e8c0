"""Objects of a file of definitions into a broker: one function for each section of the file."""

from collections.abc import Callable

from leveret.core.catalog import Kind
from leveret.core.errors import InvalidArgument, PreconditionFailed, QueueNotFound
from leveret.core.parameters import put_parameter as put_parameter_value
from leveret.core.policy import Policy
from leveret.protocols.sqs.attributes import check_kept
from leveret.protocols.sqs.queue_actions import check_tags
from leveret.security import passwords
from leveret.security.users import TAGS, User, tag_set
from leveret.server.administration import vhosts
from leveret.server.administration.alerts import book_of
from leveret.server.administration.context import VerbContext
from leveret.server.administration.exports import set_only
from leveret.server.administration.fields import Row, arguments, field

UNDEFINED = "undefined"  # RabbitMQ's word for a vhost without a default queue type


def put_vhost(context: VerbContext, row: Row) -> None:
    """A virtual host; what is said about it is in the object, or in the `metadata` of newer files."""
    told = {**row, **field(row, "metadata", dict, {})}
    queue_type = None if told.get("default_queue_type") == UNDEFINED else told.get("default_queue_type")
    tags = field(told, "tags", list) if "tags" in told else None
    vhosts.add(context, field(row, "name", str), told.get("description"), tags, queue_type)


def put_user(context: VerbContext, row: Row) -> None:
    """A user, whose password was hashed by who read the file; tags that mean nothing here are left out."""
    if "password" in row:
        raise InvalidArgument(
            f"a user has a password of at least {context.access.password_chars_min} characters and at most "
            f"{passwords.PASSWORD_BYTES_MAX} bytes, or a password_hash, not both: correct it"
        )
    kept = {name: value for name, value in row.items() if name != "hashing_algorithm"}
    told = {"password_hash": passwords.stored_hash(row), "tags": tag_set(row.get("tags", ())) & TAGS}
    context.access.import_user(User.from_dict({**kept, **told}))


def put_permission(context: VerbContext, row: Row) -> None:
    """What a user may do in a virtual host."""
    patterns = [field(row, name, str) for name in ("configure", "write", "read")]
    context.access.set_permission(field(row, "user", str), field(row, "vhost", str), *patterns)


def put_topic_permission(context: VerbContext, row: Row) -> None:
    """Which keys a user may use."""
    names = ("user", "vhost", "exchange", "write", "read")
    context.access.set_topic_permission(*(field(row, name, str) for name in names))


def put_policy(context: VerbContext, row: Row, operator: bool = False) -> None:
    """A policy."""
    policy = Policy(
        field(row, "name", str),
        field(row, "pattern", str),
        field(row, "priority", int, 0),
        field(row, "apply-to", str, "all"),
        field(row, "definition", dict),
        operator,
    )
    context.core.set_policy(field(row, "vhost", str), policy)


def put_parameter(context: VerbContext, row: Row) -> None:
    """A parameter: that is where RabbitMQ keeps the policies of operators and the limits of virtual hosts."""
    component, value = field(row, "component", str), field(row, "value", dict)
    if component == "operator_policy":
        put_policy(context, {**value, "name": row.get("name"), "vhost": row["vhost"]}, operator=True)
    elif component == "vhost-limits":
        context.access.set_vhost_limits(field(row, "vhost", str), value)
    else:
        raise InvalidArgument(f"parameters of {component} mean nothing here")


def put_global_parameter(context: VerbContext, row: Row) -> None:
    """A value that tools keep in the broker."""
    put_parameter_value(context.core, field(row, "name", str), row.get("value"))


def put_exchange(context: VerbContext, row: Row) -> None:
    """An exchange."""
    context.core.declare_exchange(
        field(row, "vhost", str),
        field(row, "name", str),
        field(row, "type", str),
        durable=field(row, "durable", bool, True),
        auto_delete=field(row, "auto_delete", bool, False),
        internal=field(row, "internal", bool, False),
        arguments=arguments(row),
    )


def put_queue(context: VerbContext, row: Row) -> None:
    """A queue."""
    given = arguments(row)
    if "type" in row:
        given.setdefault("x-queue-type", field(row, "type", str))
    context.core.declare_queue(
        field(row, "vhost", str),
        field(row, "name", str),
        given,
        durable=field(row, "durable", bool, True),
        auto_delete=field(row, "auto_delete", bool, False),
    )


def put_binding(context: VerbContext, row: Row) -> None:
    """A binding."""
    context.core.bind(
        field(row, "vhost", str),
        field(row, "source", str),
        field(row, "destination", str),
        field(row, "routing_key", str),
        arguments(row),
        field(row, "destination_type", str),
    )


def put_queue_details(context: VerbContext, row: Row) -> None:
    """Tags of a queue, and the attributes that only SQS knows; one that has others keeps them."""
    vhost, name = field(row, "vhost", str), field(row, "name", str)
    if name not in context.core.topology.vhost(vhost).queues:
        raise QueueNotFound(f"no queue '{name}' in vhost '{vhost}': it was left out")
    tags, attributes = _texts(row, "tags"), _texts(row, "attributes")
    check_tags(tags)
    kept = check_kept(attributes, name)
    now_s = context.core.now_ms // 1000
    times = {each: field(row, each, int, now_s) for each in ("created_s", "modified_s")}
    stored = context.core.catalog.get(Kind.QUEUE_DETAILS, vhost=vhost, name=name)
    if stored is not None and (stored["tags"], set_only(stored["attributes"])) != (tags, kept):
        raise PreconditionFailed("the queue has other tags or attributes: change those")
    if stored is None:
        details = {"vhost": vhost, "name": name, "tags": tags, "attributes": kept, "purges": 0, **times}
        context.core.define(Kind.QUEUE_DETAILS, details)


def put_alert_rule(context: VerbContext, row: Row) -> None:
    """A rule of alerts."""
    book_of(context).put_rule(row)


def put_alert_receiver(context: VerbContext, row: Row) -> None:
    """A receiver of notifications; secrets are in no file, so that a new one is left out until it has them."""
    book_of(context).put_receiver({name: value for name, value in row.items() if name != "vhost"})


def _texts(row: Row, name: str) -> dict[str, str]:
    """A map of words to words."""
    found: dict[str, str] = field(row, name, dict, {})
    if not all(isinstance(value, str) for value in found.values()):
        raise InvalidArgument(f"its {name} are not all text")
    return found


# In the order in which one needs the other.
IMPORTS: dict[str, Callable[[VerbContext, Row], None]] = {
    "vhosts": put_vhost,
    "users": put_user,
    "permissions": put_permission,
    "topic_permissions": put_topic_permission,
    "parameters": put_parameter,
    "global_parameters": put_global_parameter,
    "policies": put_policy,
    "exchanges": put_exchange,
    "queues": put_queue,
    "bindings": put_binding,
    "queue_details": put_queue_details,
    "alert_rules": put_alert_rule,
    "alert_receivers": put_alert_receiver,
}
