"""Verbs of operators on what only shards have: streams, their groups, journals. A node lets the right shard do them.

of a stream      by its shard; making and deleting one is decided for all nodes
lists            by all shards, as one list
the journal      by all shards
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from leveret.core.changes import DeleteQueue
from leveret.core.errors import LeveretError, Unreachable
from leveret.http.problem import problem
from leveret.http.request import Peer, Request
from leveret.http.response import Response, json_response
from leveret.node.web.edges import Edge
from leveret.server.administration import journal, streams
from leveret.server.administration.site import Site
from leveret.server.administration.verbs import call
from leveret.server.control import durably, refusal
from leveret.server.control_client import error_class

if TYPE_CHECKING:
    from leveret.embedded.broker import Broker
    from leveret.node.node import Node
    from leveret.security.access import Access

EDGE = "verbs"
NOBODY = Peer("", 0)

Arguments = dict[str, Any]


def edge(broker: Broker, access: Access) -> Edge:
    """What does verbs in a shard."""
    run, site = durably(broker.guard), Site(broker.guard.core, access)

    async def answer(request: Request) -> Response:
        told = json.loads(request.body)
        try:
            return json_response({"result": await run(lambda: call(site, told["verb"], told["arguments"]))})
        except LeveretError as error:
            return json_response(refusal(error))

    return Edge(answer, problem)


class ShardVerbs:
    """Those verbs, for the operators of one node."""

    def __init__(self, node: Node) -> None:
        """Ask shards by a node."""
        self._node = node

    async def perform(self, site: Site, verb: str, arguments: Arguments) -> Any:
        """Do what a verb says, where it is done."""
        if verb in journal.VERBS:
            homes = map(str, range(self._node.catalog.replica.placements.shards))
            sealed = await asyncio.gather(*(self._ask(home, verb, arguments) for home in homes))
            return {"sealed": any(each["sealed"] for each in sealed)}
        if verb.endswith(".list"):
            return await self._list(verb, arguments)
        vhost, stream = str(arguments.get("vhost", streams.VHOST)), str(arguments.get("stream", arguments.get("name")))
        if verb == "streams.create":
            await self._node.decide(lambda core: call(site, verb, arguments))
            rows = await self._ask(self._node.home_of(vhost, stream), "streams.list", {"vhost": vhost})
            return next(row for row in rows if row["name"] == stream)
        result = await self._ask(self._node.home_of(vhost, stream), verb, arguments)
        if verb == "streams.delete":
            await self._node.decide(DeleteQueue(vhost, stream).apply)
        return result

    async def _list(self, verb: str, arguments: Arguments) -> list[Any]:
        """The rows of all shards, in their order."""
        homes = sorted(set(self._node.catalog.replica.homes.values()))
        found = await asyncio.gather(*(self._ask(home, verb, arguments) for home in homes))
        return sorted((row for rows in found for row in rows), key=_place)

    async def _ask(self, home: str, verb: str, arguments: Arguments) -> Any:
        """What a shard gives; what it refuses is raised."""
        request = Request("POST", b"/", {}, NOBODY)
        request.body = json.dumps({"verb": verb, "arguments": arguments}).encode()
        answer = self._node.courier.ask(home, EDGE, request)
        made = await answer if isinstance(answer, Awaitable) else answer
        if not isinstance(made, Response) or made.status != 200:
            raise Unreachable(f"shard {home} did not answer: look at the log of its node")
        told = json.loads(made.body)
        if "error" in told:
            raise error_class(told["error"])(told["message"])
        return told["result"]


def _place(row: dict[str, Any]) -> tuple[str, str, str]:
    """Where a stream or a group stands in a list."""
    return row["vhost"], row.get("stream", ""), row["name"]
