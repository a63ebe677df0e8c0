"""The routing of a virtual host as a graph: who hands messages on to whom, by bindings, as alternate, and dead ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from leveret.core.dead_letter_routes import dead_letter_routes
from leveret.core.topology import Vhost
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import NAME_CHARS_MAX
from leveret.protocols.management.refusals import BadRequest, answer

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


def look(call: ManagementCall) -> Answer:
    """The edges of the graph; with `name`, those that touch something with it in its name."""
    wanted = call.request.query.get("name", "")
    if len(wanted) > NAME_CHARS_MAX:
        raise BadRequest(f"name has {len(wanted)} characters, the limit is {NAME_CHARS_MAX}: shorten it")
    found: dict[RoutingEdge, Row] = {}
    examined = 0
    with call.context.async_broker.runtime as core:
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
    """Count a binding with the others between the same two."""
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
