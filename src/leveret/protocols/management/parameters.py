"""Parameters: global ones are kept for tools; those of a virtual host are its limits and the policies of operators."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.core.broker import Broker
from leveret.core.parameters import all_parameters
from leveret.operations.policies import LIMITS, OPERATOR_POLICY
from leveret.protocols.http.router import Answer
from leveret.protocols.management import limits, policies
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import AdminContext, Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import Missing, answer, done
from leveret.protocols.management.rules import check, seen
from leveret.protocols.management.validation import invalid

CLUSTER_NAME = "cluster_name"
COMPONENTS = {LIMITS: "vhosts.limits", OPERATOR_POLICY: "operator-policies.set"}


# Of virtual hosts


def list_all(call: ManagementCall) -> Answer | Awaitable[Answer]:
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


def list_vhost(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one."""
    with call.context.async_broker.runtime as core:
        rows = call.run("parameters.list", vhost=call.virtual_host(core).name)
    found = [row for row in rows if row["component"] == call.named("component")]
    return listed(call, found)


def look(call: ManagementCall) -> Answer:
    """One parameter."""
    with call.context.async_broker.runtime as core:
        return one(call, _find(call, core))


def _find(call: ManagementCall, core: Broker) -> Row:
    found = _known(call, core)
    if found is None:
        raise Missing()
    return found


def _known(call: ManagementCall, core: Broker) -> Row | None:
    wanted = call.named("component"), call.named("name")
    rows: list[Row] = call.run("parameters.list", vhost=call.virtual_host(core).name)
    return next((row for row in rows if (row["component"], row["name"]) == wanted), None)


def put(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Set limits, or the policy of an operator."""
    value, component = call.field("value", dict), call.named("component")
    _check_component(call)

    def keep(core: Broker) -> Answer:
        known, vhost = _known(call, core), call.named("vhost")
        if component == LIMITS:
            limits.check_vhost(value)
        elif component == OPERATOR_POLICY:
            policies.operator_policy(call.named("name"), value)
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


def delete(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Remove limits, or the policy of an operator."""
    _check_component(call)

    def found(core: Broker) -> Row:
        return {name: _find(call, core)[name] for name in ("component", "vhost", "name")}

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
