"""Virtual hosts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.core.topology import Vhost, VhostDetails
from leveret.operations.context import OperationContext
from leveret.operations.operation import ADMINISTERED, MANAGED, MONITORED_VHOST, Force, Name, changes, looks

UNDEFINED = "undefined"  # RabbitMQ's word for a virtual host without a default queue type


def messages_in(virtual_host: Vhost) -> int:
    """How many messages wait in a virtual host or are taken."""
    queues = virtual_host.queues.values()
    return sum(queue.depth + queue.leased + queue.scheduled + queue.backing_off + queue.dlx for queue in queues)


def shown(context: OperationContext, virtual_host: Vhost) -> dict[str, Any]:
    """A virtual host, what is said about it, and how much is in it."""
    return {
        "name": virtual_host.name,
        "description": virtual_host.details.description,
        "tags": list(virtual_host.details.tags),
        "default_queue_type": virtual_host.details.default_queue_type,
        "tracing": virtual_host.details.tracing,
        "queues": len(virtual_host.queues),
        "messages": messages_in(virtual_host),
        "limits": context.access.vhost_limits(virtual_host.name).values(),
    }


def list_all(context: OperationContext) -> list[dict[str, Any]]:
    """List virtual hosts."""
    return [shown(context, virtual_host) for _, virtual_host in sorted(context.core.topology.vhosts.items())]


def add(
    context: OperationContext,
    name: Name,
    description: Annotated[str | None, "what it is for"] = None,
    tags: Annotated[list[str] | None, "words about it; by commas"] = None,
    default_queue_type: Annotated[str | None, "of queues that are declared without one: quorum"] = None,
    tracing: Annotated[bool | None, "copy all messages to amq.rabbitmq.trace"] = None,
) -> dict[str, Any]:
    """Add a virtual host, or say something else about one."""
    if not name:
        raise InvalidArgument("the vhost name is empty: choose one")
    virtual_host = context.core.topology.vhosts.get(name)
    known = {} if virtual_host is None else virtual_host.details.to_dict()
    told = {"description": description, "tags": tags, "default_queue_type": default_queue_type, "tracing": tracing}
    details = {**known, **{key: value for key, value in told.items() if value is not None}}
    if default_queue_type == UNDEFINED:
        del details["default_queue_type"]
    return shown(context, context.access.declare_vhost(name, VhostDetails.from_dict(details)))


def delete(context: OperationContext, name: Name, force: Force = False) -> None:
    """Delete a virtual host and all in it."""
    count = messages_in(context.core.topology.vhost(name))
    if count and not force:
        raise PreconditionFailed(f"vhost '{name}' has {count} messages: consume or purge them first, or force it")
    context.access.delete_vhost(name)


def limits(context: OperationContext, name: Name, limits: Mapping[str, int]) -> dict[str, Any]:
    """Change the limits of a virtual host."""
    context.access.set_vhost_limits(name, limits)
    return shown(context, context.core.topology.vhost(name))


def trace(context: OperationContext, name: Name, state: Annotated[Literal["on", "off"], "on or off"]) -> dict[str, Any]:
    """Turn the firehose of a virtual host on or off: copies of all messages to amq.rabbitmq.trace."""
    if state not in ("on", "off"):
        raise InvalidArgument(f"the firehose is turned on or off, not '{state}'")
    details = replace(context.core.topology.vhost(name).details, tracing=state == "on")
    return shown(context, context.access.declare_vhost(name, details))


OPERATIONS = (
    *looks("nodes", MANAGED, {"vhosts.list": list_all}),
    *looks("nodes", ADMINISTERED, ("vhosts.look",)),
    *changes(
        "catalog",
        ADMINISTERED,
        {"vhosts.add": add, "vhosts.delete": delete, "vhosts.limits": limits, "vhosts.trace": trace},
    ),
    *changes("node", ADMINISTERED, ("vhosts.start",)),
    *looks("catalog", MANAGED, ("vhosts.list-limits",)),
    *looks("catalog", MONITORED_VHOST, ("vhosts.look-at-limits",)),
)
