"""Queues and streams as the shards that have them describe them.

A node asks each other node once for the rows of a page that it has. A row that does not come in time is shown as the
catalog has it, without messages. A queue that its shard has auto-deleted is None: the catalog follows a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from leveret.cluster.forwarding.forwarder import PATIENCE_S, REFUSED, RETRY_AFTER, RETRY_S
from leveret.core.errors import InvalidArgument
from leveret.core.queue import Queue
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Response, json_response

if TYPE_CHECKING:
    from leveret.cluster.node import Node

EDGE = "rows"
ROWS_MAX = 2_000  # that one request is about
PRESENCE = "presence"  # no row: only whether a queue is there
WAIT_S = 2.0  # for the nodes that have something of a page
NO_PEER = HttpPeer("", 0)
Row = dict[str, Any]
NO_OPTIONS: Mapping[str, Any] = {}


class ClusterRows:
    """The rows of queues and streams, wherever they are."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def answer(self, request: Request) -> Response:
        """The rows that this node has of those that another one asks for."""
        asked = orjson.loads(request.body)
        if len(asked["names"]) > ROWS_MAX:
            raise InvalidArgument(f"{len(asked['names'])} rows are asked for, the limit is {ROWS_MAX}")
        rows: dict[str, Row | None] = {}
        for name in asked["names"]:
            shard = self._node.shards.get(self._node.catalog.replica.shard_ids.get((asked["vhost"], name), ""))
            if shard is not None and shard.is_proven():
                rows[name] = shard.edges.describe(asked["kind"], asked["vhost"], name, asked.get("options", {}))
        return json_response(rows)

    async def of(
        self, kind: str, vhost: str, names: list[str], options: Mapping[str, Any] = NO_OPTIONS
    ) -> dict[str, Row | None]:
        """Rows by name, without those for which no node answers."""
        owned: dict[str, list[str]] = {}
        for name in names:
            shard_id = self._node.catalog.replica.shard_ids.get((vhost, name))
            owner = None if shard_id is None else self._node.owner_of(shard_id)
            if owner is not None:
                owned.setdefault(owner, []).append(name)
        asking = [
            self._ask(owner, {"kind": kind, "vhost": vhost, "names": some, "options": options})
            for owner, some in owned.items()
        ]
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


class AutoDeleted:
    """Queues that their shard has auto-deleted and that the catalog still has."""

    def __init__(self, node: Node, rows: ClusterRows) -> None:
        self._node = node
        self._rows = rows

    def wait(self, vhost: str, name: str) -> Awaitable[None] | None:
        """Wait until the catalog knows whether a queue is there; None if it does, as this queue is not auto-deleted."""
        virtual_host = self._node.catalog.replica.broker.topology.vhosts.get(vhost)
        queue = None if virtual_host is None else virtual_host.queues.get(name)
        if queue is None or not (queue.auto_delete or queue.policy.expires_ms):
            return None
        return self._wait(queue)

    async def _wait(self, queue: Queue) -> None:
        """Return when the shard has the queue or does not answer, or when the catalog has deleted the queue, too."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PATIENCE_S
        while not queue.deleted and await self._has_gone(queue.vhost, queue.name):
            if loop.time() > deadline_s:
                raise Refusal(503, f"queue '{queue.name}' goes, and not all nodes know: try again", RETRY_AFTER)
            await asyncio.sleep(RETRY_S)

    async def _has_gone(self, vhost: str, name: str) -> bool:
        found = await self._rows.of(PRESENCE, vhost, [name])
        return name in found and found[name] is None
