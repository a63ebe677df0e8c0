"""Verbs on policies, and on those of operators."""

from collections.abc import Mapping
from typing import Any

from leveret.core.errors import NotFound
from leveret.core.policy import Policy
from leveret.core.topology import Vhost
from leveret.server.administration.context import Verb, VerbContext


def in_vhost(virtual_host: Vhost, operator: bool) -> dict[str, Policy]:
    """The policies of one sort by name."""
    return virtual_host.operator_policies if operator else virtual_host.policies


def list_all(context: VerbContext, vhost: str | None = None) -> list[dict[str, Any]]:
    """Every policy, everywhere or in one virtual host."""
    virtual_hosts = context.core.topology.vhosts.values() if vhost is None else [context.core.topology.vhost(vhost)]
    rows = [
        {"vhost": virtual_host.name, **policy.shown()}
        for virtual_host in virtual_hosts
        for operator in (False, True)
        for policy in in_vhost(virtual_host, operator).values()
    ]
    return sorted(rows, key=lambda row: (row["vhost"], row["operator"], -row["priority"], row["name"]))


def assign(
    context: VerbContext,
    vhost: str,
    name: str,
    pattern: str,
    definition: Mapping[str, Any],
    priority: int = 0,
    apply_to: str = "all",
    operator: bool = False,
) -> dict[str, Any]:
    """A new policy, or another in place of one."""
    policy = Policy(name, pattern, priority, apply_to, definition, operator)
    context.core.set_policy(vhost, policy)
    return {"vhost": vhost, **policy.to_dict()}


def clear(context: VerbContext, vhost: str, name: str, operator: bool = False) -> None:
    """A policy goes; its queues have their own settings again."""
    if name not in in_vhost(context.core.topology.vhost(vhost), operator):
        sort = "operator policy" if operator else "policy"
        raise NotFound(f"no {sort} '{name}' in vhost '{vhost}': list them to see which there are")
    context.core.delete_policy(vhost, name, operator)


VERBS: dict[str, Verb] = {"policies.list": list_all, "policies.set": assign, "policies.clear": clear}
