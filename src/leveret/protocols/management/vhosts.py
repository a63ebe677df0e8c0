"""Virtual hosts, with what is in them."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from leveret.core.broker import Broker
from leveret.core.topology import Vhost, VhostDetails
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import AdminContext, Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.rates import DEPTH_INDEXES, DEPTHS, message_stats
from leveret.protocols.management.refusals import BadRequest, done
from leveret.protocols.management.rules import seen
from leveret.security.users import tag_set

UNDEFINED = "undefined"  # RabbitMQ's word for no default queue type


def shown(context: AdminContext, virtual_host: Vhost) -> Row:
    """A virtual host; what is in it is as old as the last sample."""
    details, series = virtual_host.details, context.rates.of_vhost(virtual_host.name)
    depths = {name: series.last[index] for name, index in zip(DEPTHS, DEPTH_INDEXES, strict=True)}
    rates = {f"{name}_details": series.details(index) for name, index in zip(DEPTHS, DEPTH_INDEXES, strict=True)}
    return {
        "name": virtual_host.name,
        "description": details.description,
        "tags": list(details.tags),
        "default_queue_type": details.default_queue_type or UNDEFINED,
        "metadata": {"description": details.description, "tags": list(details.tags)},
        "tracing": details.tracing,
        "cluster_state": {context.process.node: "running"},
        **depths,
        **rates,
        "message_stats": message_stats(series.last, series),
    }


def list_all(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those that the user sees."""
    with call.context.async_broker.runtime as core:
        virtual_hosts = seen(call, core)
    return listed(
        call,
        virtual_hosts,
        lambda virtual_host: shown(call.context, virtual_host),
        lambda virtual_host: virtual_host.name,
    )


def look(call: ManagementCall) -> Answer:
    """One virtual host."""
    with call.context.async_broker.runtime as core:
        return one(call, shown(call.context, call.virtual_host(core)))


def put(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Make a virtual host, or say something else about one."""
    name, body = call.named("vhost"), call.body
    described = "description" in body or "tags" in body or "default_queue_type" in body
    queue_type = body.get("default_queue_type")
    details = VhostDetails(
        call.field("description", str, ""),
        tuple(sorted(tag_set(body.get("tags", "")))),
        None if queue_type in (None, UNDEFINED) else call.field("default_queue_type", str),
    )

    def keep(core: Broker) -> Answer:
        known = name in core.topology.vhosts
        before = core.topology.vhosts[name].details if known else details
        tracing = call.field("tracing", bool, before.tracing)
        call.context.access.declare_vhost(name, replace(details if described else before, tracing=tracing))
        if not known and call.identity.local:  # a web token says itself where its user may enter
            # As in RabbitMQ: who makes a virtual host by this API may use it.
            call.context.access.set_permission(call.user, name, ".*", ".*", ".*")
        return done(204 if known else 201)

    return call.change(keep)


def delete(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Delete a virtual host with everything in it."""

    def remove(core: Broker) -> Answer:
        call.context.access.delete_vhost(call.virtual_host(core).name)
        return done()

    return call.change(remove)


def start(call: ManagementCall) -> Answer:
    """A virtual host runs as long as the node does; another node is not known."""
    with call.context.async_broker.runtime as core:
        call.virtual_host(core)
    if call.named("node") != call.context.process.node:
        raise BadRequest(f"there is no node '{call.named('node')}' here: this one is '{call.context.process.node}'")
    return done()
