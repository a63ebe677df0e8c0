"""Policies, those of operators, and parameters: global ones are kept for tools; those of a virtual host are its limits
and the policies of operators.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from leveret.core.broker import Broker
from leveret.core.parameters import all_parameters
from leveret.core.policy import Policy
from leveret.core.topology import Vhost
from leveret.operations.policies import LIMITS, OPERATOR_POLICY
from leveret.protocols.http.router import Answer
from leveret.protocols.management import users
from leveret.protocols.management.call import ManagementCall, check, seen, spelled
from leveret.protocols.management.context import AdminContext, Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import Missing, answer, checked_policy, done, invalid, term

Ask = Callable[[ManagementCall], Answer | Awaitable[Answer]]


def shown(virtual_host: Vhost, policy: Policy) -> Row:
    """A policy; which sort it is tells its path."""
    row = policy.shown()
    del row["operator"]
    return {"vhost": virtual_host.name, **row}


def rows(virtual_host: Vhost, operator: bool) -> list[Row]:
    """The policies of one sort in a virtual host."""
    found = virtual_host.operator_policies if operator else virtual_host.policies
    return [shown(virtual_host, policy) for _, policy in sorted(found.items())]


def operator_policy(name: str, value: Row) -> Policy:
    """The policy of an operator that a parameter is."""
    priority, apply_to = value.get("priority", 0), value.get("apply-to", "all")
    return checked_policy(name, value.get("pattern", ""), priority, apply_to, value.get("definition", {}), True)


def put_policy(call: ManagementCall, vhost: str, policy: Policy) -> None:
    """Add or replace a policy that was checked."""
    call.run(
        "policies.set",
        vhost=vhost,
        name=policy.name,
        pattern=policy.pattern,
        definition=policy.definition,
        priority=policy.priority,
        apply_to=policy.apply_to,
        operator=policy.operator,
    )


def list_all(operator: bool) -> Ask:
    """Those of every virtual host that the user sees."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        with call.context.async_broker.runtime as core:
            virtual_hosts = seen(call, core)
            found = [row for virtual_host in virtual_hosts for row in rows(virtual_host, operator)]
        return listed(call, found)

    return ask


def list_vhost(operator: bool) -> Ask:
    """Those of one."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        with call.context.async_broker.runtime as core:
            found = rows(call.virtual_host(core), operator)
        return listed(call, found)

    return ask


def look(operator: bool) -> Ask:
    """One policy."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        with call.context.async_broker.runtime as core:
            return one(call, _find(call, call.virtual_host(core), operator))

    return ask


def _find(call: ManagementCall, virtual_host: Vhost, operator: bool) -> Row:
    found = next((row for row in rows(virtual_host, operator) if row["name"] == call.named("policy")), None)
    if found is None:
        raise Missing()
    return found


def put(operator: bool) -> Ask:
    """Add or replace a policy."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        call.need("definition", "pattern")
        pattern, priority = call.body["pattern"], spelled(call.body.get("priority", 0), int)
        if not isinstance(pattern, str):
            raise invalid(f"pattern should be a binary but was {term(pattern)}")
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise invalid(f"priority should be a number, actually was {term(priority)}")
        apply_to, definition = call.body.get("apply-to", "all"), call.body["definition"]
        policy = checked_policy(call.named("policy"), pattern, priority, apply_to, definition, operator)

        def keep(core: Broker) -> Answer:
            virtual_host = call.virtual_host(core)
            known = policy.name in (virtual_host.operator_policies if operator else virtual_host.policies)
            put_policy(call, virtual_host.name, policy)
            return done(204 if known else 201)

        return call.change(keep)

    return ask


def delete(operator: bool) -> Ask:
    """Remove a policy."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        def found(core: Broker) -> Row:
            row = _find(call, call.virtual_host(core), operator)
            return {"vhost": row["vhost"], "name": row["name"], "operator": operator}

        return call.changed("policies.clear", found)

    return ask


CLUSTER_NAME = "cluster_name"
COMPONENTS = {LIMITS: "vhosts.limits", OPERATOR_POLICY: "operator-policies.set"}


# Of virtual hosts


def list_parameters(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of the virtual hosts that the user sees, of one component or of all."""
    component = call.request.parameters.get("component")
    with call.context.async_broker.runtime as core:
        virtual_hosts = seen(call, core)
        found = [
            row
            for virtual_host in virtual_hosts
            for row in call.run("parameters.list", vhost=virtual_host.name)
            if component in (None, row["component"])
        ]
    return listed(call, found)


def list_vhost_parameters(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one."""
    with call.context.async_broker.runtime as core:
        rows = call.run("parameters.list", vhost=call.virtual_host(core).name)
    found = [row for row in rows if row["component"] == call.named("component")]
    return listed(call, found)


def look_at_parameter(call: ManagementCall) -> Answer:
    """One parameter."""
    with call.context.async_broker.runtime as core:
        return one(call, _find_parameter(call, core))


def _find_parameter(call: ManagementCall, core: Broker) -> Row:
    found = _known_parameter(call, core)
    if found is None:
        raise Missing()
    return found


def _known_parameter(call: ManagementCall, core: Broker) -> Row | None:
    wanted = call.named("component"), call.named("name")
    rows: list[Row] = call.run("parameters.list", vhost=call.virtual_host(core).name)
    return next((row for row in rows if (row["component"], row["name"]) == wanted), None)


def put_parameter(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Set limits, or the policy of an operator."""
    value, component = call.field("value", dict), call.named("component")
    _check_component(call)

    def keep(core: Broker) -> Answer:
        known, vhost = _known_parameter(call, core), call.named("vhost")
        if component == LIMITS:
            users.check_vhost(value)
        elif component == OPERATOR_POLICY:
            operator_policy(call.named("name"), value)
        else:
            raise invalid(f"component {component} not found")
        call.run("parameters.set", component=component, name=call.named("name"), value=value, vhost=vhost)
        return done(204 if known else 201)

    return call.change(keep)


def _check_component(call: ManagementCall) -> None:
    """Refuse a change of what has an endpoint of its own, to those to whom that is refused."""
    operation = COMPONENTS.get(call.named("component"))
    if operation is not None:
        check(call, operation)


def delete_parameter(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Remove limits, or the policy of an operator."""
    _check_component(call)

    def found(core: Broker) -> Row:
        return {name: _find_parameter(call, core)[name] for name in ("component", "vhost", "name")}

    return call.changed("parameters.clear", found)


# Global


def list_global(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Every global parameter."""
    with call.context.async_broker.runtime:
        found = call.run("global-parameters.list")
    return listed(call, found)


def look_at_global(call: ManagementCall) -> Answer:
    """One of them."""
    with call.context.async_broker.runtime:
        return one(call, _find_global(call))


def _find_global(call: ManagementCall) -> Row:
    rows: list[Row] = call.run("global-parameters.list")
    found = next((row for row in rows if row["name"] == call.named("name")), None)
    if found is None:
        raise Missing()
    return found


def put_global(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Keep a value under a name."""
    call.need("value")

    def keep(core: Broker) -> Answer:
        known = call.named("name") in all_parameters(core)
        call.run("global-parameters.set", name=call.named("name"), value=call.body["value"])
        return done(204 if known else 201)

    return call.change(keep)


def delete_global(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Forget it."""
    return call.changed("global-parameters.clear", lambda core: {"name": _find_global(call)["name"]})


def cluster_name(context: AdminContext, core: Broker) -> str:
    """How the cluster is called; under the lock."""
    name = all_parameters(core).get(CLUSTER_NAME)
    return name if isinstance(name, str) else context.process.cluster


def look_at_cluster_name(call: ManagementCall) -> Answer:
    """How the cluster is called."""
    with call.context.async_broker.runtime as core:
        return answer({"name": cluster_name(call.context, core)})


def put_cluster_name(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Call it otherwise."""
    name = call.field("name", str)
    return call.changed("global-parameters.set", lambda core: {"name": CLUSTER_NAME, "value": name})
