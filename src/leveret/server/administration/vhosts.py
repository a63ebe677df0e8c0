"""Verbs on virtual hosts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.core.topology import Vhost, VhostDetails
from leveret.server.administration.context import Site, Verb


def messages_in(home: Vhost) -> int:
    """How many messages wait in a virtual host or are taken."""
    queues = home.queues.values()
    return sum(queue.depth + queue.leased + queue.scheduled + queue.backing_off + queue.dlx for queue in queues)


def shown(site: Site, home: Vhost) -> dict[str, Any]:
    """A virtual host, what is said about it, and how much is in it."""
    return {
        "name": home.name,
        "description": home.details.description,
        "tags": list(home.details.tags),
        "default_queue_type": home.details.default_queue_type,
        "tracing": home.details.tracing,
        "queues": len(home.queues),
        "messages": messages_in(home),
        "limits": site.access.vhost_limits(home.name).values(),
    }


def list_all(site: Site) -> list[dict[str, Any]]:
    """Every virtual host."""
    return [shown(site, home) for _, home in sorted(site.core.topology.vhosts.items())]


def add(
    site: Site,
    name: str,
    description: str | None = None,
    tags: list[str] | None = None,
    default_queue_type: str | None = None,
) -> dict[str, Any]:
    """A new virtual host, or other details for one that there is; what is not told stays as it is."""
    if not name:
        raise InvalidArgument("the vhost name is empty: choose one")
    home = site.core.topology.vhosts.get(name)
    known = {} if home is None else home.details.to_dict()
    told = {"description": description, "tags": tags, "default_queue_type": default_queue_type}
    details = VhostDetails.from_dict({**known, **{key: value for key, value in told.items() if value is not None}})
    return shown(site, site.access.declare_vhost(name, details))


def delete(site: Site, name: str, force: bool = False) -> None:
    """A virtual host goes, with everything in it."""
    count = messages_in(site.core.topology.vhost(name))
    if count and not force:
        raise PreconditionFailed(f"vhost '{name}' has {count} messages: consume or purge them first, or force it")
    site.access.delete_vhost(name)


def limits(site: Site, name: str, limits: Mapping[str, int]) -> dict[str, Any]:
    """Other limits; those that are not named stay."""
    site.access.set_vhost_limits(name, limits)
    return shown(site, site.core.topology.vhost(name))


def trace(site: Site, name: str, state: str) -> dict[str, Any]:
    """Turn the firehose of a virtual host on or off."""
    if state not in ("on", "off"):
        raise InvalidArgument(f"the firehose is turned on or off, not '{state}'")
    details = replace(site.core.topology.vhost(name).details, tracing=state == "on")
    return shown(site, site.access.declare_vhost(name, details))


VERBS: dict[str, Verb] = {
    "vhosts.list": list_all,
    "vhosts.add": add,
    "vhosts.delete": delete,
    "vhosts.limits": limits,
    "vhosts.trace": trace,
}
