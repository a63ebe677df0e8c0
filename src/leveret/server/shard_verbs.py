"""Verbs of operators on what only shards or nodes have for themselves. A node lets the right ones do them.

of a stream      by its shard; making and deleting one is decided for all nodes
lists            by all shards, as one list
the journal      by all shards
alerts           what is wrong, and what happened: by all nodes, as one list
the audit log    by all nodes, as one list
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from leveret.cluster.forwarding.edges import Api
from leveret.core.changes import DeleteQueue
from leveret.core.errors import InvalidArgument, LeveretError, Unreachable
from leveret.operations import alerts, journal, server
from leveret.operations.context import OperationContext
from leveret.operations.operation import VHOST
from leveret.operations.perform import call, durably, error_class, refusal
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Response, json_response

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.embedded.broker import Broker
    from leveret.security.access import Access

EDGE = "verbs"
NO_PEER = HttpPeer("", 0)
OK = 200

Arguments = dict[str, Any]
IN_SHARDS = ("streams.", "groups.", "journal.")
LIMITED = {"alerts.history": alerts.EVENTS, "audit.list": server.ROWS}
GATHERED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "alerts.firing": lambda row: (row["state"], row["since_ms"]),
    "alerts.history": lambda row: -row["at_ms"],
    "audit.list": lambda row: -row["at_ms"],
}
"""What nodes have for themselves, and the order of it: what fires stands before what is pending."""


def edge(broker: Broker, access: Access) -> Api:
    """What does verbs in a shard."""
    run, context = durably(broker.runtime), OperationContext(broker.runtime.core, access, runtime=broker.runtime)

    async def answer(request: Request) -> Response:
        told = json.loads(request.body)
        try:
            return json_response({"result": await run(lambda: call(context, told["verb"], told["arguments"]))})
        except LeveretError as error:
            return json_response(refusal(error))

    return Api(answer, problem)


class ShardVerbs:
    """Those verbs, for the operators of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def serve(self, context: OperationContext) -> None:
        """Let other nodes ask for what this one has for itself."""

        async def answer(request: Request) -> Response:
            told = json.loads(request.body)
            if told["verb"] not in GATHERED:
                raise InvalidArgument(f"other nodes do not ask for {told['verb']}")
            return json_response(await self._node.decide(lambda core: call(context, told["verb"], told["arguments"])))

        self._node.edges[EDGE] = Api(answer, problem)

    def has(self, verb: str) -> bool:
        """Whether shards or nodes do a verb; the copy of the catalog has the others."""
        return verb in GATHERED or verb.startswith(IN_SHARDS)

    async def perform(self, context: OperationContext, verb: str, arguments: Arguments) -> Any:
        """Do what a verb says, where it is done."""
        if verb.startswith("journal."):
            return await self._in_journals(verb, arguments)
        if verb in GATHERED:
            return await self._gather(verb, arguments)
        if verb.endswith(".list"):
            return await self._list(verb, arguments)
        vhost, stream = str(arguments.get("vhost", VHOST)), str(arguments.get("stream", arguments.get("name")))
        if verb == "streams.create":
            await self._node.decide(lambda core: call(context, verb, arguments))
            rows = await self._ask(self._node.shard_id_of(vhost, stream), "streams.list", {"vhost": vhost})
            return next(row for row in rows if row["name"] == stream)
        result = await self._ask(self._node.shard_id_of(vhost, stream), verb, arguments)
        if verb == "streams.delete":
            await self._node.decide(DeleteQueue(vhost, stream).apply)
        return result

    async def _in_journals(self, verb: str, arguments: Arguments) -> dict[str, Any]:
        """Do it in the journals of all shards."""
        shard_ids = [str(number) for number in range(self._node.catalog.replica.placements.shards)]
        told = await asyncio.gather(*(self._ask(shard_id, verb, arguments) for shard_id in shard_ids))
        if verb == "journal.seal":
            return {"sealed": any(each["sealed"] for each in told)}
        if any(each["state"] != "none" for each in told):
            # A shard that has moved meanwhile has forgotten that a rotation was begun.
            moved = [shard_id for shard_id, each in zip(shard_ids, told, strict=True) if each["state"] == "none"]
            begun = await asyncio.gather(*(self._ask(shard_id, "journal.rotate-key", {}) for shard_id in moved))
            told = [*(each for each in told if each["state"] != "none"), *begun]
        return journal.merged(told)

    async def _list(self, verb: str, arguments: Arguments) -> list[Any]:
        """The rows of all shards, in their order."""
        shard_ids = sorted(set(self._node.catalog.replica.shard_ids.values()))
        found = await asyncio.gather(*(self._ask(shard_id, verb, arguments) for shard_id in shard_ids))
        return sorted((row for rows in found for row in rows), key=_place)

    async def _gather(self, verb: str, arguments: Arguments) -> list[Any]:
        """The rows of all nodes that answer, each with its node."""
        told = await self._node.forwarder.told_everywhere(EDGE, _request(verb, arguments))
        rows = [{**row, "node": name} for name, body in sorted(told.items()) for row in json.loads(body)]
        most = max(0, arguments.get("limit", LIMITED[verb])) if verb in LIMITED else len(rows)
        return sorted(rows, key=GATHERED[verb])[:most]

    async def _ask(self, shard_id: str, verb: str, arguments: Arguments) -> Any:
        """What a shard gives; what it refuses is raised."""
        answer = self._node.forwarder.ask(shard_id, EDGE, _request(verb, arguments))
        made = await answer if isinstance(answer, Awaitable) else answer
        if not isinstance(made, Response) or made.status != OK:
            raise Unreachable(f"shard {shard_id} did not answer: look at the log of its node")
        told = json.loads(made.body)
        if "error" in told:
            raise error_class(told["error"])(told["message"])
        return told["result"]


def _request(verb: str, arguments: Arguments) -> Request:
    made = Request("POST", b"/", {}, NO_PEER)
    made.body = json.dumps({"verb": verb, "arguments": arguments}).encode()
    return made


def _place(row: dict[str, Any]) -> tuple[str, str, str]:
    """Where a stream or a group stands in a list."""
    return row["vhost"], row.get("stream", ""), row["name"]
