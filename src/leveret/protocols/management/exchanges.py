"""Exchanges: listed, looked at, made, deleted; publishing to one is in publishes.py."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.core.broker import Broker
from leveret.core.exchanges import Exchange
from leveret.core.jsonable import plain
from leveret.core.policy import best
from leveret.core.topology import Vhost
from leveret.protocols.http.router import Answer
from leveret.protocols.management.bindings import find_exchange
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import done
from leveret.protocols.management.rules import seen
from leveret.security.authorisation import Role


def shown(virtual_host: Vhost, exchange: Exchange) -> Row:
    """An exchange."""
    row: Row = {
        "name": exchange.name,
        "vhost": virtual_host.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
    }
    policy = best(virtual_host.policies.values(), "exchange", exchange.name) if exchange.name else None
    return row if policy is None else {**row, "policy": policy.name}


def list_all(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """The exchanges of every virtual host that the user sees."""
    with call.context.async_broker.runtime as core:
        virtual_hosts = seen(call, core)
        rows = [row for virtual_host in virtual_hosts for row in _rows(virtual_host)]
    return listed(call, rows)


def list_vhost(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one."""
    with call.context.async_broker.runtime as core:
        rows = _rows(call.virtual_host(core))
    return listed(call, rows)


def _rows(virtual_host: Vhost) -> list[Row]:
    return [shown(virtual_host, exchange) for _, exchange in sorted(virtual_host.exchanges.items())]


def look(call: ManagementCall) -> Answer:
    """One exchange."""
    with call.context.async_broker.runtime as core:
        virtual_host = call.virtual_host(core)
        found = shown(virtual_host, find_exchange(virtual_host, call.named_exchange()))
    return one(call, {**found, "incoming": [], "outgoing": []})


def declare(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Make an exchange; one that is there already must be the same."""
    name, type, arguments = call.named_exchange(), call.field("type", str, "direct"), call.arguments()
    flags = {each: call.field(each, bool, False) for each in ("durable", "auto_delete", "internal")}
    names: dict[Role, str] = {"exchange": name}
    if isinstance(arguments.get("alternate-exchange"), str):
        names["alternate_exchange"] = arguments["alternate-exchange"]

    def make(core: Broker) -> Answer:
        virtual_host = call.virtual_host(core)
        call.authorize("exchange.declare", names)
        known = name in virtual_host.exchanges
        core.declare_exchange(virtual_host.name, name, type, arguments=arguments, **flags)
        return done(204 if known else 201)

    return call.change(make)


def delete(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Delete an exchange and its bindings."""

    def remove(core: Broker) -> Answer:
        virtual_host = call.virtual_host(core)
        exchange = find_exchange(virtual_host, call.named_exchange())
        call.authorize("exchange.delete", {"exchange": exchange.name})
        core.delete_exchange(virtual_host.name, exchange.name, call.flag("if-unused"))
        return done()

    return call.change(remove)
