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
from leveret.server.administration.context import VerbContext

Rows = Iterator[dict[str, Any]]
DETAILS = ("vhost", "name", "tags", "attributes", "created_s", "modified_s")


def vhosts_of(context: VerbContext) -> list[Vhost]:
    """Every virtual host, by name."""
    return [virtual_host for _, virtual_host in sorted(context.core.topology.vhosts.items())]


def vhosts(context: VerbContext) -> Rows:
    """Virtual hosts and what is said about them."""
    return (virtual_host.to_dict() for virtual_host in vhosts_of(context))


def users(context: VerbContext) -> Rows:
    """Users with what is needed to check their passwords."""
    return ({**user.to_dict(), **exported(user.password_hash)} for user in context.access.users)


def permissions(context: VerbContext) -> Rows:
    """Permissions."""
    return (row.to_dict() for row in context.access.permissions)


def topic_permissions(context: VerbContext) -> Rows:
    """Permissions on keys."""
    return (row.to_dict() for row in context.access.permissions.topics())


def parameters(context: VerbContext) -> Rows:
    """Limits of virtual hosts and policies of operators."""
    for virtual_host in vhosts_of(context):
        limits = context.access.vhost_limits(virtual_host.name).values()
        if limits:
            yield {"component": "vhost-limits", "vhost": virtual_host.name, "name": "limits", "value": limits}
        for policy in virtual_host.operator_policies.values():
            value = policy.to_dict()
            del value["operator"]
            yield {
                "component": "operator_policy",
                "vhost": virtual_host.name,
                "name": value.pop("name"),
                "value": value,
            }


def global_parameters(context: VerbContext) -> Rows:
    """Values that tools keep in the broker."""
    return ({"name": name, "value": value} for name, value in all_parameters(context.core).items())


def policies(context: VerbContext) -> Rows:
    """Policies."""
    for virtual_host in vhosts_of(context):
        for policy in virtual_host.policies.values():
            row = policy.to_dict()
            del row["operator"]
            yield {"vhost": virtual_host.name, **row}


def exchanges(context: VerbContext) -> Rows:
    """Exchanges but those that every virtual host has."""
    for virtual_host in vhosts_of(context):
        for exchange in virtual_host.exchanges.values():
            if exchange.name and not exchange.name.startswith(RESERVED_PREFIX):
                yield {"vhost": virtual_host.name, **exchange.to_dict()}


def queues(context: VerbContext) -> Rows:
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


def bindings(context: VerbContext) -> Rows:
    """Bindings but those of queues that belong to a connection."""
    for virtual_host in vhosts_of(context):
        for binding in virtual_host.bindings():
            if getattr(binding.destination, "owner", None) is None:
                yield {"vhost": virtual_host.name, **binding.to_dict()}


def queue_details(context: VerbContext) -> Rows:
    """Tags of queues, and what SQS knows about them beside their arguments; access keys are secrets and stay here."""
    for row in context.core.catalog.of(Kind.QUEUE_DETAILS):
        yield {**{name: row[name] for name in DETAILS}, "attributes": set_only(row["attributes"])}


def set_only(attributes: dict[str, str]) -> dict[str, str]:
    """Attributes without those that were taken away, which are kept empty."""
    return {name: value for name, value in attributes.items() if value != ""}


def alert_rules(context: VerbContext) -> Rows:
    """Rules of alerts that are not as they always are."""
    return (rule.to_dict() for rule in book_of(context).changed_rules())


def alert_receivers(context: VerbContext) -> Rows:
    """Who is told about alerts; secrets stay here."""
    return (receiver.exported() for receiver in book_of(context).receivers())


EXPORTS: dict[str, Callable[[VerbContext], Rows]] = {
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
