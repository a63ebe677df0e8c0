"""Policies and those of operators, and parameters."""

from collections.abc import Mapping
from typing import Annotated, Any

from leveret.core.errors import NotFound
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


OPERATIONS = (
    *looks("catalog", MANAGED_VHOST, {"policies.list": list_all}),
    *looks("catalog", MANAGED_VHOST, ("operator-policies.list",)),
    *looks("catalog", POLICIES, ("policies.look",)),
    *changes("catalog", POLICIES, {"policies.set": assign, "policies.clear": clear}),
    *looks("catalog", ADMINISTERED, ("operator-policies.look",)),
    *changes("catalog", ADMINISTERED, ("operator-policies.set", "operator-policies.clear")),
    *looks("catalog", POLICIES, ("parameters.list", "global-parameters.list")),
    *changes("catalog", POLICIES, ("parameters.set", "parameters.clear")),
    *changes("catalog", POLICIES, ("global-parameters.set", "global-parameters.clear")),
)
