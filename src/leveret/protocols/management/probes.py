"""Where would this key go? The queues that a message would reach, and the bindings that lead it there."""

from __future__ import annotations

from leveret.core.exchanges import DefaultExchange
from leveret.core.jsonable import decode_table
from leveret.core.names import check_key
from leveret.core.routing import probe
from leveret.protocols.http.router import Answer
from leveret.protocols.management.bindings import find_exchange, implied, shown
from leveret.protocols.management.call import ManagementCall, parsed
from leveret.protocols.management.refusals import BadRequest, answer

HEADERS_MAX = 100
TOLD_MAX = 500  # queues, and bindings


def ask(call: ManagementCall) -> Answer:
    """Follow a message that is not there; nothing is published."""
    key, headers = call.request.query.get("routing_key", ""), _headers(call)
    check_key(key)
    with call.context.async_broker.runtime as core:
        virtual_host = call.virtual_host(core)
        exchange = find_exchange(virtual_host, call.named_exchange())
        found = probe(exchange, virtual_host.exchanges, key, headers)
        rows = [shown(virtual_host, each) for each in found.bindings[:TOLD_MAX]]
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
