"""Policies and those of operators, and parameters."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from leveret.core.errors import InvalidArgument, NotFound
from leveret.core.parameters import all_parameters, drop_parameter, put_parameter
from leveret.core.policy import Policy
from leveret.core.topology import Vhost as KnownVhost
from leveret.operations.context import OperationContext
from leveret.operations.operation import (
    ADMINISTERED,
    MANAGED_VHOST,
    POLICIES,
    VHOST,
    Name,
    OnlyVhost,
    Vhost,
    changes,
    looks,
)
from leveret.security.users import UNLIMITED

LIMITS, OPERATOR_POLICY = "vhost-limits", "operator_policy"
Component = Annotated[str, "vhost-limits or operator_policy"]
Operator = Annotated[bool, "a policy that only caps settings"]


def in_vhost(virtual_host: KnownVhost, operator: bool) -> dict[str, Policy]:
    """The policies of one sort by name."""
    return virtual_host.operator_policies if operator else virtual_host.policies


def list_all(context: OperationContext, vhost: OnlyVhost = None) -> list[dict[str, Any]]:
    """List policies."""
    virtual_hosts = context.core.topology.vhosts.values() if vhost is None else [context.core.topology.vhost(vhost)]
    rows = [
        {"vhost": virtual_host.name, **policy.shown()}
        for virtual_host in virtual_hosts
        for operator in (False, True)
        for policy in in_vhost(virtual_host, operator).values()
    ]
    return sorted(rows, key=lambda row: (row["vhost"], row["operator"], -row["priority"], row["name"]))


def assign(
    context: OperationContext,
    name: Name,
    pattern: Annotated[str, "regular expression that is searched in names"],
    definition: Annotated[Mapping[str, Any], "the settings, as a JSON object"],
    priority: Annotated[int, "of several policies the highest one counts; default: 0"] = 0,
    apply_to: Annotated[str, "all, queues, classic_queues, quorum_queues or exchanges"] = "all",
    operator: Operator = False,
    vhost: Vhost = VHOST,
) -> dict[str, Any]:
    """Give settings to all queues and exchanges whose name a pattern matches."""
    policy = Policy(name, pattern, priority, apply_to, definition, operator)
    context.core.set_policy(vhost, policy)
    return {"vhost": vhost, **policy.to_dict()}


def clear(context: OperationContext, name: Name, operator: Operator = False, vhost: Vhost = VHOST) -> None:
    """Delete a policy."""
    if name not in in_vhost(context.core.topology.vhost(vhost), operator):
        sort = "operator policy" if operator else "policy"
        raise NotFound(f"no {sort} '{name}' in vhost '{vhost}': list them to see which there are")
    context.core.delete_policy(vhost, name, operator)


def list_parameters(context: OperationContext, vhost: OnlyVhost = None) -> list[dict[str, Any]]:
    """List limits of virtual hosts and policies of operators, as RabbitMQ has them."""
    names = sorted(context.core.topology.vhosts) if vhost is None else [vhost]
    return [row for name in names for row in _parameters(context, name)]


def _parameters(context: OperationContext, vhost: str) -> Iterator[dict[str, Any]]:
    limits = context.access.vhost_limits(vhost).values()
    if limits:
        yield {"component": LIMITS, "vhost": vhost, "name": "limits", "value": limits}
    for _, policy in sorted(context.core.topology.vhost(vhost).operator_policies.items()):
        row = policy.to_dict()
        value = {name: row[name] for name in ("pattern", "definition", "priority", "apply-to")}
        yield {"component": OPERATOR_POLICY, "vhost": vhost, "name": policy.name, "value": value}


def set_parameter(
    context: OperationContext, component: Component, name: Name, value: Mapping[str, Any], vhost: Vhost = VHOST
) -> None:
    """Set limits of a virtual host, or a policy of operators."""
    if component == LIMITS:
        context.access.set_vhost_limits(vhost, value)
    elif component == OPERATOR_POLICY:
        told = (value.get("priority", 0), value.get("apply-to", "all"), value.get("definition", {}))
        priority, apply_to, definition = told
        context.core.set_policy(vhost, Policy(name, value.get("pattern", ""), priority, apply_to, definition, True))
    else:
        raise InvalidArgument(f"parameters of {component} mean nothing here")


def clear_parameter(context: OperationContext, component: Component, name: Name, vhost: Vhost = VHOST) -> None:
    """Remove limits of a virtual host, or a policy of operators."""
    if component == OPERATOR_POLICY:
        clear(context, name, True, vhost)
    else:
        context.access.set_vhost_limits(vhost, dict.fromkeys(context.access.vhost_limits(vhost).values(), UNLIMITED))


def list_global(context: OperationContext) -> list[dict[str, Any]]:
    """List values that tools keep in the broker."""
    return [{"name": name, "value": value} for name, value in all_parameters(context.core).items()]


def set_global(context: OperationContext, name: Name, value: Any) -> None:
    """Keep a value for tools."""
    put_parameter(context.core, name, value)


def clear_global(context: OperationContext, name: Name) -> None:
    """Forget a value of tools."""
    drop_parameter(context.core, name)


OPERATIONS = (
    *looks("catalog", MANAGED_VHOST, {"policies.list": list_all}),
    *looks("catalog", MANAGED_VHOST, ("operator-policies.list",)),
    *looks("catalog", POLICIES, ("policies.look",)),
    *changes("catalog", POLICIES, {"policies.set": assign, "policies.clear": clear}),
    *looks("catalog", ADMINISTERED, ("operator-policies.look",)),
    *changes("catalog", ADMINISTERED, ("operator-policies.set", "operator-policies.clear")),
    *looks("catalog", POLICIES, {"parameters.list": list_parameters, "global-parameters.list": list_global}),
    *changes("catalog", POLICIES, {"parameters.set": set_parameter, "parameters.clear": clear_parameter}),
    *changes("catalog", POLICIES, {"global-parameters.set": set_global, "global-parameters.clear": clear_global}),
)
