"""Connections, channels and consumers of all nodes; nodes themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from leveret.protocols.http.request import Refusal
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.cluster.asking import (
    REFUSED,
    Told,
    ask_nodes,
    ask_shards,
    awaited,
    marked,
    nodes_of,
    request_like,
    value_of,
)
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import Missing

Name = Callable[[Any], str]


async def _together(call: ManagementCall, told: Told, name: Name) -> Answer:
    """The rows of all who have answered, as one list."""
    if told.refusal is not None:
        return told.refusal
    rows = [row for each in told.by.values() for row in each]
    return await marked(listed(call, rows, name=name), told.unanswered)


def _name(row: Row) -> str:
    return str(row.get("name", ""))


def _tag(row: Row) -> str:
    return str(row["consumer_tag"])


async def list_of_nodes(call: ManagementCall) -> Answer:
    """What each node lists, together."""
    told = await ask_nodes(call, request_like(call, call.request.raw_path))
    return await _together(call, told, _name)


async def list_consumers(call: ManagementCall) -> Answer:
    """Consumers are where their queues are."""
    shard_ids = nodes_of(call).shard_ids()
    told = await ask_shards(call, {shard_id: request_like(call, call.request.raw_path) for shard_id in shard_ids})
    return await _together(call, told, _tag)


async def first_found(call: ManagementCall) -> Answer:
    """The answer of the node that knows what the path names; if none does, what this one says."""
    nodes = nodes_of(call)
    answers = await nodes.everywhere(call.request)
    found = next((each for each in answers.values() if each.status < REFUSED), None) or answers.get(nodes.name)
    if found is None:
        raise Missing()
    lacking = [name for name in nodes.names if name not in answers] if found.status >= REFUSED else []
    return await marked(found, lacking)


async def all_do(call: ManagementCall) -> Answer:
    """Every node does it; the answer is that of this one."""
    nodes = nodes_of(call)
    answers = await nodes.everywhere(call.request)
    return await marked(answers[nodes.name], [name for name in nodes.names if name not in answers])


async def look_at_channel(call: ManagementCall) -> Answer:
    """One channel, with its consumers, which are elsewhere."""
    found = await first_found(call)
    if found.status >= REFUSED:
        return found
    row, shard_ids = await value_of(found), nodes_of(call).shard_ids()
    told = await ask_shards(call, {shard_id: request_like(call, b"/api/consumers") for shard_id in shard_ids})
    consumers = [each for rows in told.by.values() for each in rows]
    wanted = unquote(call.named("channel"))
    details = [each for each in consumers if each["channel_details"]["name"] == wanted]
    return await marked(one(call, {**row, "consumer_details": details}), told.unanswered)


# Nodes


async def list_nodes(call: ManagementCall) -> Answer:
    """Every node; one that does not answer is told to be down."""
    told = await ask_nodes(call, request_like(call, b"/api/nodes"))
    if told.refusal is not None:
        return told.refusal
    down = [_down(name) for name in told.unanswered]
    rows = sorted([row for each in told.by.values() for row in each] + down, key=_name)
    return await marked(listed(call, rows), told.unanswered)


def _down(name: str) -> Row:
    return {"name": name, "type": "disc", "running": False}


async def ask_node(call: ManagementCall) -> Answer:
    """Let the node answer that the path names."""
    nodes, name = nodes_of(call), call.named("node")
    if name not in nodes.names:
        raise Missing()
    return await nodes.ask_node(name, call.request)


async def look_at_node(call: ManagementCall) -> Answer:
    """One node."""
    try:
        return await awaited(ask_node(call))
    except Refusal:
        return one(call, _down(call.named("node")))
