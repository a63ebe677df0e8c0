"""Dead letters of a virtual host, counted by where they lie, why they died at last, and where they died first.

What is told of a group is also what finds its messages: the headers x-last-death-reason and x-first-death-queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from leveret.core import browse
from leveret.core.deadletter import dead_letter_queues, deaths_of
from leveret.core.held import Held
from leveret.core.jsonable import plain
from leveret.core.queue import Queue
from leveret.protocols.http.response import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.refusals import answer

if TYPE_CHECKING:
    from leveret.core.browse import Cursor

EXAMINED_MAX = 20_000  # messages that one answer looks at
EXAMINED_QUEUE_MAX = 5_000  # and of one queue: a long one must not hide the others
STEP = 200  # messages that are looked at in one turn of the loop
GROUPS_MAX = 500
REASON, ORIGIN = "x-last-death-reason", "x-first-death-queue"


class DeadLetterGroup(NamedTuple):
    """What dead letters have in common."""

    queue: str
    reason: str
    origin: str


async def list_vhost(call: ManagementCall) -> Answer:
    """The groups, the largest first; of the queues that a node names to a shard, as only the catalog knows them."""
    names = call.body.get("queues")
    with call.runtime as core:
        virtual_host = call.virtual_host(core)
        found = dead_letter_queues(virtual_host) if names is None else map(virtual_host.queues.get, map(str, names))
        known = [queue for queue in found if queue and call.allows("basic.get", {"queue": queue.name})]
    groups: dict[DeadLetterGroup, Row] = {}
    queues: list[Row] = []
    left = EXAMINED_MAX
    for queue in known:
        examined = await _examine(call, queue, min(left, EXAMINED_QUEUE_MAX), groups)
        left -= examined
        queues.append({"name": queue.name, "messages": queue.depth, "examined": examined})
    rows = largest_first(groups.values())
    complete = len(rows) <= GROUPS_MAX and all(each["examined"] >= each["messages"] for each in queues)
    return answer({"groups": rows[:GROUPS_MAX], "queues": queues, "complete": complete})


def largest_first(rows: Iterable[Row]) -> list[Row]:
    """Groups in the order in which they are told."""
    return sorted(rows, key=lambda row: (-row["messages"], row["queue"], row["reason"], row["origin"]))


async def _examine(call: ManagementCall, queue: Queue, most: int, groups: dict[DeadLetterGroup, Row]) -> int:
    """Count the first messages of a queue, some in each turn of the loop; give how many it were."""
    cursor: Cursor | None = ()
    examined = 0
    while cursor is not None and examined < most:
        with call.runtime:
            if queue.deleted:
                break
            found, cursor = browse.ready_after(queue, cursor, min(most - examined, STEP))
            for held in found:
                _count(groups, queue, held)
        examined += len(found)
        await asyncio.sleep(0)
    return examined


def _count(groups: dict[DeadLetterGroup, Row], queue: Queue, held: Held) -> None:
    """Add a message to its group; one that never died is in none. Under the lock."""
    message = browse.read(held)
    headers = message.properties.headers or {}
    if REASON not in headers or ORIGIN not in headers:
        return
    group = DeadLetterGroup(queue.name, str(plain(headers[REASON])), str(plain(headers[ORIGIN])))
    row = groups.get(group)
    if row is None:
        row = groups[group] = {
            **group._asdict(),
            "messages": 0,
            "bytes": 0,
            "first_died_at": None,
            "last_died_at": None,
        }
    row["messages"] += 1
    row["bytes"] += len(message.body)
    deaths = deaths_of(message.properties)
    died = deaths[0].get("time") if deaths else None
    if died is not None:
        died_ms = int(died.timestamp() * 1000)
        row["first_died_at"] = min(died_ms, row["first_died_at"] or died_ms)
        row["last_died_at"] = max(died_ms, row["last_died_at"] or died_ms)
