"""A broker as the objects of a file of definitions: one function for each section of the file."""

from collections.abc import Callable, Iterator
from typing import Any

from leveret.core.catalog import Kind
from leveret.core.jsonable import encode
from leveret.core.names import RESERVED_PREFIX
from leveret.core.parameters import all_parameters
from leveret.core.topology import Vhost
from leveret.security.passwords import exported
from leveret.server.administration.alerts import book_of
from leveret.server.administration.context import Site

Rows = Iterator[dict[str, Any]]
DETAILS = ("vhost", "name", "tags", "attributes", "created_s", "modified_s")


def vhosts_of(site: Site) -> list[Vhost]:
    """Every virtual host, by name."""
    return [home for _, home in sorted(site.core.topology.vhosts.items())]


def vhosts(site: Site) -> Rows:
    """Virtual hosts and what is said about them."""
    return (home.to_dict() for home in vhosts_of(site))


def users(site: Site) -> Rows:
    """Users with what is needed to check their passwords."""
    return ({**user.to_dict(), **exported(user.password_hash)} for user in site.access.users)


def permissions(site: Site) -> Rows:
    """Permissions."""
    return (row.to_dict() for row in site.access.permissions)


def topic_permissions(site: Site) -> Rows:
    """Permissions on keys."""
    return (row.to_dict() for row in site.access.permissions.topics())


def parameters(site: Site) -> Rows:
    """Limits of virtual hosts and policies of operators."""
    for home in vhosts_of(site):
        limits = site.access.vhost_limits(home.name).values()
        if limits:
            yield {"component": "vhost-limits", "vhost": home.name, "name": "limits", "value": limits}
        for policy in home.operator_policies.values():
            value = policy.to_dict()
            del value["operator"]
            yield {"component": "operator_policy", "vhost": home.name, "name": value.pop("name"), "value": value}


def global_parameters(site: Site) -> Rows:
    """Values that tools keep in the broker."""
    return ({"name": name, "value": value} for name, value in all_parameters(site.core).items())


def policies(site: Site) -> Rows:
    """Policies."""
    for home in vhosts_of(site):
        for policy in home.policies.values():
            row = policy.to_dict()
            del row["operator"]
            yield {"vhost": home.name, **row}


def exchanges(site: Site) -> Rows:
    """Exchanges but those that every virtual host has."""
    for home in vhosts_of(site):
        for exchange in home.exchanges.values():
            if exchange.name and not exchange.name.startswith(RESERVED_PREFIX):
                yield {"vhost": home.name, **exchange.to_dict()}


def queues(site: Site) -> Rows:
    """Queues but those that belong to a connection."""
    for home in vhosts_of(site):
        for queue in home.queues.values():
            if queue.owner is None:
                yield {
                    "vhost": home.name,
                    "name": queue.name,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": encode(queue.arguments or {}),
                }


def bindings(site: Site) -> Rows:
    """Bindings but those of queues that belong to a connection."""
    for home in vhosts_of(site):
        for binding in home.bindings():
            if getattr(binding.destination, "owner", None) is None:
                yield {"vhost": home.name, **binding.to_dict()}


def queue_details(site: Site) -> Rows:
    """Tags of queues, and what SQS knows about them beside their arguments; access keys are secrets and stay here."""
    for row in site.core.catalog.of(Kind.QUEUE_DETAILS):
        yield {**{name: row[name] for name in DETAILS}, "attributes": set_only(row["attributes"])}


def set_only(attributes: dict[str, str]) -> dict[str, str]:
    """Attributes without those that were taken away, which are kept empty."""
    return {name: value for name, value in attributes.items() if value != ""}


def alert_rules(site: Site) -> Rows:
    """Rules of alerts that are not as they always are."""
    return (rule.to_dict() for rule in book_of(site).changed_rules())


def alert_receivers(site: Site) -> Rows:
    """Who is told about alerts; secrets stay here."""
    return (receiver.exported() for receiver in book_of(site).receivers())


EXPORTS: dict[str, Callable[[Site], Rows]] = {
    "vhosts": vhosts,
    "users": users,
    "permissions": permissions,
    "topic_permissions": topic_permissions,
    "parameters": parameters,
    "global_parameters": global_parameters,
    "policies": policies,
    "exchanges": exchanges,
    "queues": queues,
    "bindings": bindings,
    "queue_details": queue_details,
    "alert_rules": alert_rules,
    "alert_receivers": alert_receivers,
}
