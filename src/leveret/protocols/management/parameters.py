"""Parameters: global ones are kept for tools; those of a virtual host are its limits and the policies of operators."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.core.broker import Broker
from leveret.core.parameters import all_parameters, drop_parameter, put_parameter
from leveret.core.topology import Vhost
from leveret.protocols.http.router import Answer
from leveret.protocols.management import limits, policies
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import AdminContext, Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import Missing, answer, done
from leveret.protocols.management.rules import check, seen
from leveret.protocols.management.validation import invalid

CLUSTER_NAME = "cluster_name"
LIMITS = "vhost-limits"
OPERATOR_POLICY = "operator_policy"
COMPONENTS = {LIMITS: "vhosts.limits", OPERATOR_POLICY: "operator-policies.set"}


# Of virtual hosts


def rows(context: AdminContext, virtual_host: Vhost) -> list[Row]:
    """The parameters of a virtual host."""
    own = context.access.vhost_limits(virtual_host.name).values()
    found = [{"component": LIMITS, "vhost": virtual_host.name, "name": "limits", "value": own}] if own else []
    for row in policies.rows(virtual_host, True):
        value = {key: row[key] for key in ("pattern", "definition", "priority", "apply-to")}
        found.append({"component": OPERATOR_POLICY, "vhost": virtual_host.name, "name": row["name"], "value": value})
    return found


def list_all(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of the virtual hosts that the user sees, of one component or of all."""
    component = call.request.parameters.get("component")
    with call.context.async_broker.runtime as core:
        virtual_hosts = seen(call, core)
        found = [
            row
            for virtual_host in virtual_hosts
            for row in rows(call.context, virtual_host)
            if component in (None, row["component"])
        ]
    return listed(call, found)


def list_vhost(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one."""
    with call.context.async_broker.runtime as core:
        found = [
            row for row in rows(call.context, call.virtual_host(core)) if row["component"] == call.named("component")
        ]
    return listed(call, found)


def look(call: ManagementCall) -> Answer:
    """One parameter."""
    with call.context.async_broker.runtime as core:
        return one(call, _find(call, core))


def _find(call: ManagementCall, core: Broker) -> Row:
    wanted = call.named("component"), call.named("name")
    for row in rows(call.context, call.virtual_host(core)):
        if (row["component"], row["name"]) == wanted:
            return row
    raise Missing()


def put(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Set limits, or the policy of an operator."""
    value, component = call.field("value", dict), call.named("component")
    _check_component(call)

    def keep(core: Broker) -> Answer:
        virtual_host = call.virtual_host(core)
        known = any(
            (row["component"], row["name"]) == (component, call.named("name"))
            for row in rows(call.context, virtual_host)
        )
        if component == LIMITS:
            limits.check_vhost(value)
            call.context.access.set_vhost_limits(virtual_host.name, value)
        elif component == OPERATOR_POLICY:
            core.set_policy(virtual_host.name, policies.operator_policy(call.named("name"), value))
        else:
            raise invalid(f"component {component} not found")
        return done(204 if known else 201)

    return call.change(keep)


def _check_component(call: ManagementCall) -> None:
    """Refuse a change of what has an endpoint of its own, to those to whom that is refused."""
    operation = COMPONENTS.get(call.named("component"))
    if operation is not None:
        check(call, operation)


def delete(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Remove limits, or the policy of an operator."""
    _check_component(call)

    def remove(core: Broker) -> Answer:
        found, vhost = _find(call, core), call.named("vhost")
        if found["component"] == LIMITS:
            call.context.access.set_vhost_limits(vhost, dict.fromkeys(found["value"], -1))
        else:
            core.delete_policy(vhost, found["name"], True)
        return done()

    return call.change(remove)


# Global


def list_global(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Every global parameter."""
    with call.context.async_broker.runtime as core:
        found = [{"name": name, "value": value} for name, value in all_parameters(core).items()]
    return listed(call, found)


def look_at_global(call: ManagementCall) -> Answer:
    """One of them."""
    name = call.named("name")
    with call.context.async_broker.runtime as core:
        known = all_parameters(core)
    if name not in known:
        raise Missing()
    return one(call, {"name": name, "value": known[name]})


def put_global(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Keep a value under a name."""
    call.need("value")

    def keep(core: Broker) -> Answer:
        known = call.named("name") in all_parameters(core)
        put_parameter(core, call.named("name"), call.body["value"])
        return done(204 if known else 201)

    return call.change(keep)


def delete_global(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Forget it."""

    def remove(core: Broker) -> Answer:
        if call.named("name") not in all_parameters(core):
            raise Missing()
        drop_parameter(core, call.named("name"))
        return done()

    return call.change(remove)


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

    def keep(core: Broker) -> Answer:
        put_parameter(core, CLUSTER_NAME, name)
        return done()

    return call.change(keep)
