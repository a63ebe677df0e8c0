"""Verbs on virtual hosts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.core.topology import Vhost, VhostDetails
from leveret.server.administration.context import Verb, VerbContext


def messages_in(virtual_host: Vhost) -> int:
    """How many messages wait in a virtual host or are taken."""
    queues = virtual_host.queues.values()
    return sum(queue.depth + queue.leased + queue.scheduled + queue.backing_off + queue.dlx for queue in queues)


def shown(context: VerbContext, virtual_host: Vhost) -> dict[str, Any]:
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


def list_all(context: VerbContext) -> list[dict[str, Any]]:
    """Every virtual host."""
    return [shown(context, virtual_host) for _, virtual_host in sorted(context.core.topology.vhosts.items())]


def add(
    context: VerbContext,
    name: str,
    description: str | None = None,
    tags: list[str] | None = None,
    default_queue_type: str | None = None,
) -> dict[str, Any]:
    """A new virtual host, or other details for one that there is; what is not told stays as it is."""
    if not name:
        raise InvalidArgument("the vhost name is empty: choose one")
    virtual_host = context.core.topology.vhosts.get(name)
    known = {} if virtual_host is None else virtual_host.details.to_dict()
    told = {"description": description, "tags": tags, "default_queue_type": default_queue_type}
    details = VhostDetails.from_dict({**known, **{key: value for key, value in told.items() if value is not None}})
    return shown(context, context.access.declare_vhost(name, details))


def delete(context: VerbContext, name: str, force: bool = False) -> None:
    """A virtual host goes, with everything in it."""
    count = messages_in(context.core.topology.vhost(name))
    if count and not force:
        raise PreconditionFailed(f"vhost '{name}' has {count} messages: consume or purge them first, or force it")
    context.access.delete_vhost(name)


def limits(context: VerbContext, name: str, limits: Mapping[str, int]) -> dict[str, Any]:
    """Other limits; those that are not named stay."""
    context.access.set_vhost_limits(name, limits)
    return shown(context, context.core.topology.vhost(name))


def trace(context: VerbContext, name: str, state: str) -> dict[str, Any]:
    """Turn the firehose of a virtual host on or off."""
    if state not in ("on", "off"):
        raise InvalidArgument(f"the firehose is turned on or off, not '{state}'")
    details = replace(context.core.topology.vhost(name).details, tracing=state == "on")
    return shown(context, context.access.declare_vhost(name, details))


VERBS: dict[str, Verb] = {
    "vhosts.list": list_all,
    "vhosts.add": add,
    "vhosts.delete": delete,
    "vhosts.limits": limits,
    "vhosts.trace": trace,
}
