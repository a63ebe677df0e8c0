"""Virtual hosts, with what is in them."""

from __future__ import annotations

from leveret.core.broker import Broker
from leveret.core.topology import Vhost
from leveret.operations.vhosts import UNDEFINED
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.call import ManagementCall, change
from leveret.protocols.management.context import AdminContext, Row
from leveret.protocols.management.listing import listed, row
from leveret.protocols.management.rates import DEPTH_INDEXES, DEPTHS, message_stats
from leveret.protocols.management.refusals import BadRequest, done
from leveret.security.users import tag_set


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


def list_all(call: ManagementCall) -> Answered:
    """Those that the user sees."""
    with call.runtime as core:
        virtual_hosts = call.virtual_hosts(core)
    return listed(
        call,
        virtual_hosts,
        lambda virtual_host: shown(call.context, virtual_host),
        lambda virtual_host: virtual_host.name,
    )


look = row(lambda call, core: shown(call.context, call.virtual_host(core)))
delete = change("vhosts.delete", lambda call, core: {"name": call.virtual_host(core).name, "force": True})


def put(call: ManagementCall) -> Answered:
    """Make a virtual host, or say something else about one."""
    name, body = call.named("vhost"), call.body
    told: Row = {"tracing": call.field("tracing", bool)} if "tracing" in body else {}
    if "description" in body or "tags" in body or "default_queue_type" in body:
        tags, has_type = sorted(tag_set(body.get("tags", ""))), body.get("default_queue_type") is not None
        queue_type = call.field("default_queue_type", str) if has_type else UNDEFINED
        told |= {"description": call.field("description", str, ""), "tags": tags, "default_queue_type": queue_type}

    def keep(core: Broker) -> Answer:
        known = name in core.topology.vhosts
        call.run("vhosts.add", name=name, **told)
        if not known and call.identity.local:  # a web token says itself where its user may enter
            # As in RabbitMQ: who makes a virtual host by this API may use it.
            everything = dict.fromkeys(("configure", "write", "read"), ".*")
            call.run("permissions.set", user=call.user, vhost=name, **everything)
        return done(204 if known else 201)

    return call.change(keep)


def start(call: ManagementCall) -> Answer:
    """A virtual host runs as long as the node does; another node is not known."""
    with call.runtime as core:
        call.virtual_host(core)
    if call.named("node") != call.context.process.node:
        raise BadRequest(f"there is no node '{call.named('node')}' here: this one is '{call.context.process.node}'")
    return done()
