"""Messages of a cluster: published to the shards of their queues, and looked for in all of them."""

from __future__ import annotations

import json
from collections import defaultdict
from heapq import nsmallest
from typing import Any

from leveret.core.broker import Broker
from leveret.core.dead_letter_routes import dead_letter_queues
from leveret.protocols.http.router import Answer
from leveret.protocols.management import dead_letters, health, publishes, scheduled
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.cluster.asking import ask_shards, awaited, marked, nodes_of, request_like, unreachable
from leveret.protocols.management.context import Row
from leveret.protocols.management.refusals import answer, done


async def publish(call: ManagementCall) -> Answer:
    """Publish a message to every shard that has a queue for it; say whether all of these have it."""
    names = publishes.destinations(call)
    shard_ids = list(dict.fromkeys(nodes_of(call).shard_id_of(call.named("vhost"), name) for name in names))
    if len(shard_ids) == 1:
        return await awaited(nodes_of(call).ask(shard_ids[0], call.request))
    told = await ask_shards(call, dict.fromkeys(shard_ids, call.request), timeout_s=None)
    if told.refusal is not None:
        return told.refusal
    if told.unanswered:
        raise unreachable(told.unanswered[0].removeprefix("shard "))
    return answer({"routed": bool(shard_ids) and all(each["routed"] for each in told.by.values())})


async def list_dead_letters(call: ManagementCall) -> Answer:
    """Dead letters by group; which queues they may reach is known by the copy of all definitions."""
    by_shard: dict[str, list[str]] = defaultdict(list)
    with call.context.async_broker.runtime as core:
        known = [
            queue
            for queue in dead_letter_queues(call.virtual_host(core))
            if call.allows("basic.get", {"queue": queue.name})
        ]
    for queue in known:
        by_shard[nodes_of(call).shard_id_of(queue.vhost, queue.name)].append(queue.name)
    requests = {
        shard_id: request_like(call, call.request.raw_path, "POST", json.dumps({"queues": names}).encode())
        for shard_id, names in by_shard.items()
    }
    told = await ask_shards(call, requests)
    queues = sorted((row for each in told.by.values() for row in each["queues"]), key=_name)
    groups = dead_letters.largest_first([row for each in told.by.values() for row in each["groups"]])
    complete = all(each["complete"] for each in told.by.values()) and not told.unanswered
    most = dead_letters.GROUPS_MAX
    found = {"groups": groups[:most], "queues": queues, "complete": complete and len(groups) <= most}
    return await marked(answer(found), told.unanswered)


async def count_dead_letters(call: ManagementCall) -> Answer:
    """The groups in some queues of a shard."""
    names = frozenset(map(str, call.field("queues", list)))
    with call.context.async_broker.runtime as core:
        known = [queue for queue in call.virtual_host(core).queues.values() if queue.name in names]
    return await dead_letters.counted(call, known)


async def list_scheduled(call: ManagementCall) -> Answer:
    """The next messages that are due, of all shards."""
    with call.context.async_broker.runtime as core:
        vhost = call.virtual_host(core).name
    told = await ask_shards(call, dict.fromkeys(nodes_of(call).shard_ids(vhost), call.request))
    if told.refusal is not None:
        return told.refusal
    rows: list[Row] = [row for each in told.by.values() for row in each["messages"]]
    queues = sorted((row for each in told.by.values() for row in each["queues"]), key=_name)
    found = {
        "messages": nsmallest(call.number("limit") or scheduled.TOLD, rows, key=lambda row: row["due_at"]),
        "queues": queues[: scheduled.CHOICE_MAX],
        "total": sum(each["total"] for each in told.by.values()),
        "complete": all(each["complete"] for each in told.by.values()) and not told.unanswered,
    }
    return await marked(answer(found), told.unanswered)


async def aliveness(call: ManagementCall) -> Answer:
    """Send a message to a queue of its own and take it again, in the shard of that queue."""

    def made(core: Broker) -> Answer:
        health.test_queue(call, core)
        return done()

    await awaited(call.change(made))
    shard_id = nodes_of(call).shard_id_of(call.named("vhost"), health.TEST_QUEUE)
    return await awaited(nodes_of(call).ask(shard_id, call.request))


def _name(row: dict[str, Any]) -> str:
    return str(row["name"])
