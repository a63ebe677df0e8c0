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
from leveret.protocols.management.call import Call
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import done
from leveret.protocols.management.rules import seen
from leveret.security.authorisation import Role


def shown(home: Vhost, exchange: Exchange) -> Row:
    """An exchange."""
    row: Row = {
        "name": exchange.name,
        "vhost": home.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
    }
    policy = best(home.policies.values(), "exchange", exchange.name) if exchange.name else None
    return row if policy is None else {**row, "policy": policy.name}


def list_all(call: Call) -> Answer | Awaitable[Answer]:
    """The exchanges of every virtual host that the user sees."""
    with call.site.desk.guard as core:
        homes = seen(call, core)
        rows = [row for home in homes for row in _rows(home)]
    return listed(call, rows)


def list_vhost(call: Call) -> Answer | Awaitable[Answer]:
    """Those of one."""
    with call.site.desk.guard as core:
        rows = _rows(call.home(core))
    return listed(call, rows)


def _rows(home: Vhost) -> list[Row]:
    return [shown(home, exchange) for _, exchange in sorted(home.exchanges.items())]


def look(call: Call) -> Answer:
    """One exchange."""
    with call.site.desk.guard as core:
        home = call.home(core)
        found = shown(home, find_exchange(home, call.named_exchange()))
    return one(call, {**found, "incoming": [], "outgoing": []})


def declare(call: Call) -> Answer | Awaitable[Answer]:
    """Make an exchange; one that is there already must be the same."""
    name, type, arguments = call.named_exchange(), call.field("type", str, "direct"), call.arguments()
    flags = {each: call.field(each, bool, False) for each in ("durable", "auto_delete", "internal")}
    names: dict[Role, str] = {"exchange": name}
    if isinstance(arguments.get("alternate-exchange"), str):
        names["alternate_exchange"] = arguments["alternate-exchange"]

    def make(core: Broker) -> Answer:
        home = call.home(core)
        call.authorize("exchange.declare", names)
        known = name in home.exchanges
        core.declare_exchange(home.name, name, type, arguments=arguments, **flags)
        return done(204 if known else 201)

    return call.change(make)


def delete(call: Call) -> Answer | Awaitable[Answer]:
    """Delete an exchange and its bindings."""

    def remove(core: Broker) -> Answer:
        home = call.home(core)
        exchange = find_exchange(home, call.named_exchange())
        call.authorize("exchange.delete", {"exchange": exchange.name})
        core.delete_exchange(home.name, exchange.name, call.flag("if-unused"))
        return done()

    return call.change(remove)
