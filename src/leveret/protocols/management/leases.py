"""Unacked messages, and who holds them; RabbitMQ only counts them."""

from __future__ import annotations

from collections.abc import Awaitable
from heapq import nsmallest

from leveret.core import browse
from leveret.core.held import Held
from leveret.core.ids import format_id
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed

LEASES_MAX = 1_000  # that one answer tells of, those that are held longest


def list_queue(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """The leases of a queue, the oldest first."""
    with call.context.async_broker.runtime as core:
        queue = call.queue(core)
        call.authorize("basic.get", {"queue": queue.name})
        oldest = nsmallest(LEASES_MAX, browse.holdings(queue, "leased"), key=_taken)
        rows = [_shown(call, core.tag, held) for held in oldest]
    return listed(call, rows)


def _taken(held: Held) -> tuple[int, int]:
    return held.delivered_ms, held.seq


def _shown(call: ManagementCall, tag: int, held: Held) -> Row:
    """A lease; under the lock. Who takes by HTTP has a name, and no connection."""
    holder = call.context.clients.holder(held.consumer)
    return {
        "message_id": format_id(tag, held.seq),
        "priority": held.priority,
        "deliveries": held.deliveries,
        "enqueued_at": held.enqueued_ms,
        "taken_at": held.delivered_ms,
        "ends_at": held.when_ms or None,
        "holder": {"name": held.consumer} if isinstance(held.consumer, str) else holder,
    }
