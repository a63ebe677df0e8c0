"""Messages of a virtual host that are not due yet, whichever queue they wait in."""

from __future__ import annotations

from heapq import nsmallest

from leveret.core import browse
from leveret.core.held import Held
from leveret.core.ids import format_id
from leveret.core.queue import Queue
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.queues import NAME
from leveret.protocols.management.refusals import BadRequest, answer

TOLD_MAX = 500
TOLD = 100
EXAMINED_MAX = 100_000  # messages that one answer looks at, under the lock
CHOICE_MAX = 1_000  # queues that are named


def list_vhost(call: ManagementCall) -> Answer:
    """The next ones that are due, of all queues or of one."""
    wanted, limit = call.request.query.get("queue"), call.number("limit")
    if limit is not None and not 1 <= limit <= TOLD_MAX:
        raise BadRequest(f"limit is from 1 to {TOLD_MAX}: ask for one queue to see more of it")
    with call.runtime as core:
        holding = [queue for queue in call.virtual_host(core).queues.values() if queue.scheduled]
        readable = [queue for queue in holding if call.allows("basic.get", {"queue": queue.name})]
        allowed = sorted(readable, key=NAME)
        meant = [queue for queue in allowed if wanted in (None, queue.name)]
        found, examined = _holdings(meant)
        rows = [_shown(core.tag, held) for held in nsmallest(limit or TOLD, found, key=_due)]
    return answer(
        {
            "messages": rows,
            "queues": [{"name": queue.name, "scheduled": queue.scheduled} for queue in allowed[:CHOICE_MAX]],
            "total": sum(queue.scheduled for queue in meant),
            "complete": examined == len(meant),
        }
    )


def _holdings(queues: list[Queue]) -> tuple[list[Held], int]:
    """What is scheduled in some queues, until that is too much; and in how many of them."""
    found: list[Held] = []
    for number, queue in enumerate(queues):
        if len(found) > EXAMINED_MAX:
            return found, number
        found += browse.holdings(queue, "scheduled")
    return found, len(queues)


def _due(held: Held) -> tuple[int, int]:
    return held.when_ms, held.seq


def _shown(tag: int, held: Held) -> Row:
    message = browse.read(held)
    return {
        "queue": held.queue.name,
        "message_id": format_id(tag, held.seq),
        "due_at": held.when_ms,
        "enqueued_at": held.enqueued_ms,
        "priority": held.priority,
        "exchange": message.exchange,
        "routing_key": message.routing_key.encode("utf-8", "replace").decode(),
        "payload_bytes": len(message.body),
    }
