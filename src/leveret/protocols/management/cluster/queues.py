"""Queues of a cluster: their names are in the copy of the catalog, and what is in them is in their shards."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from operator import attrgetter
from typing import Any

from leveret.core.broker import Broker
from leveret.core.changes import DeleteQueue
from leveret.core.jsonable import plain
from leveret.core.queue import Queue
from leveret.core.queue_types import check_delete
from leveret.protocols.http.response import Response
from leveret.protocols.http.router import Answer
from leveret.protocols.management import queues
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.cluster.asking import REFUSED, ask_shards, awaited, nodes_of, request_like, value_of
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import RANGES, Fetch, fetched, range_of, reduced
from leveret.protocols.management.refusals import BadRequest, answer
from leveret.protocols.management.routes import Endpoint
from leveret.protocols.management.rules import seen

ROWS = "/rows"
ROWS_MAX = 2_000  # that one question is about
KEYS = {"name": attrgetter("name"), "vhost": attrgetter("vhost")}


# Lists


async def list_all(call: ManagementCall) -> Answer:
    """The queues of every virtual host that the user sees."""
    with call.context.async_broker.runtime as core:
        virtual_hosts = seen(call, core)
    return await _listed(call, queues.ByName(call.context.async_broker.runtime, virtual_hosts))


async def list_vhost(call: ManagementCall) -> Answer:
    """Those of one."""
    with call.context.async_broker.runtime as core:
        virtual_host = call.virtual_host(core)
    return await _listed(call, queues.ByName(call.context.async_broker.runtime, [virtual_host]))


def _listed(call: ManagementCall, handles: Sequence[Queue]) -> Awaitable[Answer]:
    return fetched(call, handles, fetch_of(call), queues.NAME, KEYS)


def fetch_of(call: ManagementCall) -> Fetch:
    """Gets the rows of queues from their shards; those of a shard that does not answer have no figures."""
    wanted = {f"{name}_{end}" for name in RANGES for end in ("age", "incr")}
    ranges = "&".join(f"{name}={value}" for name, value in call.request.query.items() if name in wanted)

    async def fetch(handles: list[Any], columns: tuple[str, ...]) -> list[Row | None]:
        nodes = nodes_of(call)
        by_shard: dict[str, list[Queue]] = defaultdict(list)
        for queue in [each for each in handles if not each.deleted]:
            by_shard[nodes.shard_id_of(queue.vhost, queue.name)].append(queue)
        target = f"/api{ROWS}?{ranges}".encode()
        told = await ask_shards(
            call,
            {
                shard_id: request_like(call, target, "POST", json.dumps(_names(some)).encode())
                for shard_id, some in by_shard.items()
            },
        )
        rows = {(row["vhost"], row["name"]): row for each in told.by.values() for row in each}
        asked = {(queue.vhost, queue.name) for shard_id in told.by for queue in by_shard[shard_id]}
        gone = asked - rows.keys()  # by themselves, just now: the copy has not heard of it
        return [
            None
            if queue.deleted or (queue.vhost, queue.name) in gone
            else reduced(_whole(call, queue, rows.get((queue.vhost, queue.name))), columns)
            for queue in handles
        ]

    return fetch


def _names(some: list[Queue]) -> dict[str, Any]:
    return {"queues": [[queue.vhost, queue.name] for queue in some]}


def _whole(call: ManagementCall, queue: Queue, row: Row | None) -> Row:
    """A row as one broker would have it: whose a queue is, is not known in its shard."""
    nodes = nodes_of(call)
    exclusive = {"exclusive": queue.owner is not None}
    if row is not None:
        return {**row, **exclusive}
    shard_id = nodes.shard_id_of(queue.vhost, queue.name)
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "node": nodes.owner_of(shard_id),
        **({"shard": int(shard_id)} if shard_id.isdigit() else {}),
        "type": queue.policy.queue_type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        **exclusive,
        "arguments": plain(queue.arguments or {}),
        "state": "down",
    }


def rows(call: ManagementCall) -> Answer:
    """What a shard tells of some of its queues; those that it does not have are left out."""
    wanted = call.field("queues", list)
    if len(wanted) > ROWS_MAX:
        raise BadRequest(f"{len(wanted)} queues are asked for, the limit is {ROWS_MAX}")
    lengths, rates = range_of(call, "lengths"), range_of(call, "msg_rates")
    found: list[Row] = []
    with call.context.async_broker.runtime as core:
        for vhost, name in wanted:
            virtual_host = core.topology.vhosts.get(vhost)
            queue = None if virtual_host is None else virtual_host.queues.get(name)
            if queue is not None:
                found.append(queues.shown(call.context, core, queue, lengths, rates))
    return answer(found)


# One queue


def settled(endpoint: Endpoint, parameter: str) -> Endpoint:
    """The same, once the copy knows whether the queue in the path is there."""

    async def after(waiting: Awaitable[None], call: ManagementCall) -> Answer:
        await waiting
        return await awaited(endpoint(call))

    def asked(call: ManagementCall) -> Answer | Awaitable[Answer]:
        waiting = nodes_of(call).auto_deleted(call.named("vhost"), call.named(parameter))
        return endpoint(call) if waiting is None else after(waiting, call)

    return asked


def shard_id_of(call: ManagementCall, *, unlocked: bool = False) -> str:
    """The shard of the queue in the path; `unlocked`: refuse one that belongs to a connection."""
    with call.context.async_broker.runtime as core:
        queue = call.queue(core)
        if unlocked:
            core.check_owner(queue, None)
    return nodes_of(call).shard_id_of(queue.vhost, queue.name)


def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Let the shard of a queue answer."""
    return nodes_of(call).ask(shard_id_of(call), call.request)


def ask_unlocked(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """The same for what no client may do to the exclusive queues of others."""
    return nodes_of(call).ask(shard_id_of(call, unlocked=True), call.request)


def move(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Let the shard move messages; only here is known whether another shard has their destination."""
    if "destination" in call.body:
        with call.context.async_broker.runtime as core:
            core.check_owner(call.virtual_host(core).queue(call.field("destination", str)), None)
    return ask_unlocked(call)


async def look(call: ManagementCall) -> Answer:
    """One queue, with its consumers."""
    found = await awaited(ask(call))
    if found.status >= REFUSED:
        return found
    with call.context.async_broker.runtime as core:
        exclusive = call.queue(core).owner is not None
    row = await value_of(found)
    return answer({**row, "exclusive": exclusive} if "exclusive" in row else row)


async def delete(call: ManagementCall) -> Answer:
    """Delete a queue, in its shard, which knows whether it is used, and then for all nodes."""
    shard_id = shard_id_of(call, unlocked=True)
    with call.context.async_broker.runtime as core:
        queue = call.queue(core)
        call.authorize("queue.delete", {"queue": queue.name})
        check_delete(queue, call.flag("if-unused"), call.flag("if-empty"))
    made = await awaited(nodes_of(call).ask(shard_id, call.request))
    if made.status >= REFUSED:
        return made

    def forget(core: Broker) -> Answer:
        DeleteQueue(call.named("vhost"), call.named("queue")).apply(core)
        return Response(made.status, headers=made.headers)

    return await awaited(call.change(forget))
