"""Policies, those of operators, and parameters: global ones are kept for tools; those of a virtual host are its limits
and the policies of operators.
"""

from __future__ import annotations

from functools import partial

from leveret.core.broker import Broker
from leveret.core.parameters import all_parameters
from leveret.core.policy import Policy
from leveret.core.topology import Vhost
from leveret.operations.policies import LIMITS, OPERATOR_POLICY, in_vhost
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management import users
from leveret.protocols.management.call import ManagementCall, change, check, first, needed, spelled
from leveret.protocols.management.context import AdminContext, Row
from leveret.protocols.management.listing import row, rows
from leveret.protocols.management.refusals import answer, checked_policy, invalid, term


def shown(virtual_host: Vhost, policy: Policy) -> Row:
    """A policy; which sort it is tells its path."""
    row = policy.shown()
    del row["operator"]
    return {"vhost": virtual_host.name, **row}


def rows_of(virtual_host: Vhost, operator: bool) -> list[Row]:
    """The policies of one sort in a virtual host."""
    return [shown(virtual_host, policy) for _, policy in sorted(in_vhost(virtual_host, operator).items())]


def operator_policy(name: str, value: Row) -> Policy:
    """The policy of an operator that a parameter is."""
    priority, apply_to = value.get("priority", 0), value.get("apply-to", "all")
    return checked_policy(name, value.get("pattern", ""), priority, apply_to, value.get("definition", {}), True)


def _all(call: ManagementCall, core: Broker, operator: bool) -> list[Row]:
    """Those of the virtual host that the path names, or of all that the user sees."""
    return [row for virtual_host in call.virtual_hosts(core) for row in rows_of(virtual_host, operator)]


def _find(call: ManagementCall, core: Broker, operator: bool) -> Row:
    return needed(first(rows_of(call.virtual_host(core), operator), name=call.named("policy")))


def put(call: ManagementCall, operator: bool = False) -> Answered:
    """Add or replace a policy."""
    call.need("definition", "pattern")
    pattern, priority = call.body["pattern"], spelled(call.body.get("priority", 0), int)
    if not isinstance(pattern, str):
        raise invalid(f"pattern should be a binary but was {term(pattern)}")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise invalid(f"priority should be a number, actually was {term(priority)}")
    apply_to, definition = call.body.get("apply-to", "all"), call.body["definition"]
    policy = checked_policy(call.named("policy"), pattern, priority, apply_to, definition, operator)
    names = ("name", "pattern", "definition", "priority", "apply_to", "operator")
    arguments = {"vhost": call.named("vhost"), **{name: getattr(policy, name) for name in names}}
    return call.put("policies.set", lambda core: policy.name in in_vhost(call.virtual_host(core), operator), arguments)


def _key(call: ManagementCall, core: Broker, operator: bool) -> Row:
    row = _find(call, core, operator)
    return {"vhost": row["vhost"], "name": row["name"], "operator": operator}


put_operators = partial(put, operator=True)
list_all, list_operators = (rows(partial(_all, operator=each)) for each in (False, True))
look, look_at_operators = (row(partial(_find, operator=each)) for each in (False, True))
delete, delete_operators = (change("policies.clear", partial(_key, operator=each)) for each in (False, True))


CLUSTER_NAME = "cluster_name"
COMPONENTS = {LIMITS: "vhosts.limits", OPERATOR_POLICY: "operator-policies.set"}


# Of virtual hosts


@rows
def list_parameters(call: ManagementCall, core: Broker) -> list[Row]:
    """Those of one component or of all, in the virtual host that the path names or in all that the user sees."""
    component = call.request.parameters.get("component")
    names = [virtual_host.name for virtual_host in call.virtual_hosts(core)]
    found = [row for name in names for row in call.run("parameters.list", vhost=name)]
    return [row for row in found if component in (None, row["component"])]


look_at_parameter = row(lambda call, core: needed(_parameter(call, core)))


def _parameter(call: ManagementCall, core: Broker) -> Row | None:
    rows: list[Row] = call.run("parameters.list", vhost=call.virtual_host(core).name)
    return first(rows, component=call.named("component"), name=call.named("name"))


def put_parameter(call: ManagementCall) -> Answered:
    """Set limits, or the policy of an operator."""
    value, component, name = call.field("value", dict), call.named("component"), call.named("name")
    _check_component(call)

    def is_known(core: Broker) -> bool:
        known = _parameter(call, core)
        if component == LIMITS:
            users.check_vhost(value)
        elif component == OPERATOR_POLICY:
            operator_policy(name, value)
        else:
            raise invalid(f"component {component} not found")
        return known is not None

    arguments = {"component": component, "name": name, "value": value, "vhost": call.named("vhost")}
    return call.put("parameters.set", is_known, arguments)


def _check_component(call: ManagementCall) -> None:
    """Refuse a change of what has an endpoint of its own, to those to whom that is refused."""
    operation = COMPONENTS.get(call.named("component"))
    if operation is not None:
        check(call, operation)


def _removed(call: ManagementCall, core: Broker) -> Row:
    """Limits, or the policy of an operator."""
    _check_component(call)
    row = needed(_parameter(call, core))
    return {name: row[name] for name in ("component", "vhost", "name")}


delete_parameter = change("parameters.clear", _removed)


# Global


def _find_global(call: ManagementCall, core: Broker) -> Row:
    rows: list[Row] = call.run("global-parameters.list")
    return needed(first(rows, name=call.named("name")))


def put_global(call: ManagementCall) -> Answered:
    """Keep a value under a name."""
    call.need("value")
    arguments = {"name": call.named("name"), "value": call.body["value"]}
    return call.put("global-parameters.set", lambda core: arguments["name"] in all_parameters(core), arguments)


list_global = rows(lambda call, core: call.run("global-parameters.list"))
look_at_global = row(_find_global)
delete_global = change("global-parameters.clear", lambda call, core: {"name": _find_global(call, core)["name"]})


def cluster_name(context: AdminContext, core: Broker) -> str:
    """How the cluster is called; under the lock."""
    name = all_parameters(core).get(CLUSTER_NAME)
    return name if isinstance(name, str) else context.process.cluster


def look_at_cluster_name(call: ManagementCall) -> Answer:
    """How the cluster is called."""
    with call.runtime as core:
        return answer({"name": cluster_name(call.context, core)})


put_cluster_name = change(
    "global-parameters.set", lambda call, core: {"name": CLUSTER_NAME, "value": call.field("name", str)}
)
