"""Exchanges: listed, looked at, made, deleted, and where a message would go; publishing to one is in messages.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from leveret.core.broker import Broker
from leveret.core.deadletter import dead_letter_routes
from leveret.core.exchanges import DefaultExchange, Exchange
from leveret.core.jsonable import decode_table, plain
from leveret.core.names import check_key
from leveret.core.policy import best
from leveret.core.routing import probe
from leveret.core.topology import Vhost
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.bindings import find_exchange, implied
from leveret.protocols.management.bindings import shown as shown_binding
from leveret.protocols.management.call import ManagementCall, parsed
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import NAME_CHARS_MAX, row, rows
from leveret.protocols.management.refusals import BadRequest, answer, done
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


@rows
def list_all(call: ManagementCall, core: Broker) -> list[Row]:
    """The exchanges of the virtual host that the path names, or of all that the user sees."""
    return [
        shown(virtual_host, exchange)
        for virtual_host in call.virtual_hosts(core)
        for _, exchange in sorted(virtual_host.exchanges.items())
    ]


@row
def look(call: ManagementCall, core: Broker) -> Row:
    """One exchange."""
    virtual_host = call.virtual_host(core)
    found = shown(virtual_host, find_exchange(virtual_host, call.named_exchange()))
    return {**found, "incoming": [], "outgoing": []}


def declare(call: ManagementCall) -> Answered:
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


def delete(call: ManagementCall) -> Answered:
    """Delete an exchange and its bindings."""

    def remove(core: Broker) -> Answer:
        virtual_host = call.virtual_host(core)
        exchange = find_exchange(virtual_host, call.named_exchange())
        call.authorize("exchange.delete", {"exchange": exchange.name})
        core.delete_exchange(virtual_host.name, exchange.name, call.flag("if-unused"))
        return done()

    return call.change(remove)


HEADERS_MAX = 100
TOLD_MAX = 500  # queues, and bindings


def probe_route(call: ManagementCall) -> Answer:
    """Follow a message that is not there; nothing is published."""
    key, headers = call.request.query.get("routing_key", ""), _headers(call)
    check_key(key)
    with call.runtime as core:
        virtual_host = call.virtual_host(core)
        exchange = find_exchange(virtual_host, call.named_exchange())
        found = probe(exchange, virtual_host.exchanges, key, headers)
        rows = [shown_binding(virtual_host, each) for each in found.bindings[:TOLD_MAX]]
        if isinstance(exchange, DefaultExchange):
            rows = [implied(virtual_host, queue) for queue in found.queues]
        names = [queue.name for queue in found.queues]
    told_all = found.complete and len(found.bindings) <= TOLD_MAX and len(names) <= TOLD_MAX
    return answer(
        {
            "queues": names[:TOLD_MAX],
            "queue_count": len(names),
            "bindings": rows,
            "alternates": [{"exchange": name, "alternate": other} for name, other in found.alternates],
            "complete": told_all,
        }
    )


def _headers(call: ManagementCall) -> dict[str, object]:
    """The headers of the message, which the query has as JSON."""
    given = parsed(call.request.query.get("headers", "{}").encode())
    if not isinstance(given, dict):
        raise BadRequest("headers is not an object: send names and values")
    if len(given) > HEADERS_MAX:
        raise BadRequest(f"there are {len(given)} headers, the limit is {HEADERS_MAX}: send fewer")
    return decode_table("headers", given)


EXAMINED_MAX = 20_000  # bindings that one answer looks at, under the lock
EDGES_MAX = 300  # more cannot be drawn
KEYS_MAX = 5  # of one edge that are told


class RoutingEdge(NamedTuple):
    """The object that hands messages on, and the one that gets them."""

    source: str
    source_type: str
    destination: str
    destination_type: str
    kind: str


def look_at_routing(call: ManagementCall) -> Answer:
    """The edges of the graph; with `name`, those that touch something with it in its name."""
    wanted = call.request.query.get("name", "")
    if len(wanted) > NAME_CHARS_MAX:
        raise BadRequest(f"name has {len(wanted)} characters, the limit is {NAME_CHARS_MAX}: shorten it")
    found: dict[RoutingEdge, Row] = {}
    examined = 0
    with call.runtime as core:
        virtual_host = call.virtual_host(core)
        for edge, key in islice(_edges(virtual_host), EXAMINED_MAX):
            examined += 1
            if wanted in edge.source or wanted in edge.destination:
                _add(found, edge, key)
        types = {name: exchange.type for name, exchange in virtual_host.exchanges.items()}
    rows = list(found.values())[:EDGES_MAX]
    named = {row[end] for row in rows for end in ("source", "destination") if row[f"{end}_type"] == "exchange"}
    return answer(
        {
            "edges": rows,
            "exchanges": [{"name": name, "type": types.get(name)} for name in sorted(named)],
            "complete": examined < EXAMINED_MAX and len(found) <= EDGES_MAX,
        }
    )


def _add(found: dict[RoutingEdge, Row], edge: RoutingEdge, key: str) -> None:
    row = found.setdefault(edge, {**edge._asdict(), "bindings": 0, "routing_keys": []})
    row["bindings"] += 1
    if len(row["routing_keys"]) < KEYS_MAX:
        row["routing_keys"].append(key)


def _edges(virtual_host: Vhost) -> Iterator[tuple[RoutingEdge, str]]:
    """Every edge with its key; not the bindings to the default exchange, which every queue has."""
    for binding in virtual_host.bindings():
        ends = (binding.destination.name, binding.destination_type)
        yield RoutingEdge(binding.source, "exchange", *ends, "binding"), binding.key.encode("utf-8", "replace").decode()
    for exchange in virtual_host.exchanges.values():
        if exchange.alternate is not None:
            yield RoutingEdge(exchange.name, "exchange", exchange.alternate, "exchange", "alternate"), ""
    for each in dead_letter_routes(virtual_host):
        yield RoutingEdge(each.source.name, "queue", each.destination.name, each.destination_type, "dead letters"), ""
