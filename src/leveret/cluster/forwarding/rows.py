"""Queues and streams as the shards that have them describe them: what lists of a node are made of.

A page of a list is asked for once of each node that has some of it. What no node answers for in time is shown as the
catalog knows it, without messages. What a shard has just deleted by itself is None: the catalog will hear of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from leveret.cluster.forwarding.forwarder import REFUSED
from leveret.core.queue import Queue as CoreQueue
from leveret.embedded.broker import Broker
from leveret.embedded.managed import ManagedQueue
from leveret.embedded.stream import Stream
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.rest import queues, streams

if TYPE_CHECKING:
    from leveret.cluster.node import Node

EDGE = "rows"
PRESENCE = "presence"  # what is asked for by who wants to know no more than whether a queue is there
WAIT_S = 2.0  # for the nodes that have something of a page
NO_PEER = HttpPeer("", 0)
Row = dict[str, Any]


def _queue(broker: Broker, queue: CoreQueue) -> Row:
    with broker.runtime:
        return queues.shown(ManagedQueue(broker, queue))


def _stream(broker: Broker, queue: CoreQueue) -> Row:
    return streams.shown(Stream(broker, queue))


def _presence(broker: Broker, queue: CoreQueue) -> Row:
    return {}


SHOWN: dict[str, Callable[[Broker, CoreQueue], Row]] = {"queues": _queue, "streams": _stream, PRESENCE: _presence}


class ClusterRows:
    """The rows of queues and streams, wherever they are."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def answer(self, request: Request) -> Response:
        """What this node has of what another one asks for."""
        asked = orjson.loads(request.body)
        shown = SHOWN[asked["kind"]]
        rows: dict[str, Row | None] = {}
        for name in asked["names"]:
            shard = self._node.shards.get(self._node.catalog.replica.shard_ids.get((asked["vhost"], name), ""))
            broker = None if shard is None or not shard.is_proven() else shard.edges.broker
            if broker is not None:
                virtual_host = broker.runtime.core.topology.vhosts.get(asked["vhost"])
                queue = None if virtual_host is None else virtual_host.queues.get(name)
                rows[name] = None if queue is None else shown(broker, queue)
        return json_response(rows)

    async def of(self, kind: str, vhost: str, names: list[str]) -> dict[str, Row | None]:
        """The rows of queues or streams by their names; those that no node answers for are left out."""
        owned: dict[str, list[str]] = {}
        for name in names:
            shard_id = self._node.catalog.replica.shard_ids.get((vhost, name))
            owner = None if shard_id is None else self._node.owner_of(shard_id)
            if owner is not None:
                owned.setdefault(owner, []).append(name)
        asking = [self._ask(owner, {"kind": kind, "vhost": vhost, "names": some}) for owner, some in owned.items()]
        found: dict[str, Row | None] = {}
        for rows in await asyncio.gather(*asking):
            found |= rows
        return found

    async def _ask(self, owner: str, asked: dict[str, Any]) -> dict[str, Row | None]:
        request = Request("POST", b"/", {}, NO_PEER)
        request.body = orjson.dumps(asked)
        try:
            async with asyncio.timeout(WAIT_S):
                answer = await self._node.forwarder.ask_node(owner, EDGE, request)
        except (TimeoutError, Refusal):
            return {}
        if not isinstance(answer, Response) or answer.status >= REFUSED:
            return {}
        rows: dict[str, Row | None] = orjson.loads(answer.body)
        return rows
