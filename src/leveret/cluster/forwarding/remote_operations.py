"""Operations of the operator on what only shards or other nodes have: streams, groups, journals, alerts, audit logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.cluster.forwarding.dispatcher import OperationDispatcher, Task, value_of
from leveret.cluster.forwarding.forwarder import REFUSED
from leveret.cluster.forwarding.handler import Api
from leveret.core.broker import Broker
from leveret.core.changes import DeleteQueue
from leveret.core.errors import InvalidArgument
from leveret.operations import alerts, journal, server
from leveret.operations.context import OperationContext
from leveret.operations.operation import VHOST, Scope
from leveret.operations.perform import Run, call, error_class, refusal
from leveret.operations.registry import OPERATIONS
from leveret.protocols.http.cluster import PLAIN, InCluster, Parts, awaited
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Answer, Response, json_response

if TYPE_CHECKING:
    from leveret.cluster.node import Node

EDGE = "verbs"
PLACE = ("vhost", "stream", "queue", "name")
NO_PEER = HttpPeer("", 0)

Arguments = dict[str, Any]


def operations_api(run: Run, context: OperationContext, *scopes: Scope) -> Api:
    """Runs operations of these scopes for other nodes."""

    async def answer(request: Request) -> Response:
        asked = json.loads(request.body)
        if OPERATIONS[asked["verb"]].scope not in scopes:
            raise InvalidArgument(f"other nodes do not ask for {asked['verb']}")
        return json_response(await run(lambda: call(context, asked["verb"], asked["arguments"])))

    return Api(answer, lambda error: json_response(refusal(error), REFUSED))


class RemoteCall(NamedTuple):
    """An operation with its arguments."""

    cluster: OperationDispatcher
    name: str
    arguments: Arguments

    @property
    def stream(self) -> tuple[str, str]:
        """The virtual host and the name of the stream or queue in question."""
        named = next(self.arguments[each] for each in ("queue", "stream", "name") if each in self.arguments)
        return str(self.arguments.get("vhost", VHOST)), str(named)

    def request(self, name: str, arguments: Arguments) -> Request:
        made = Request("POST", b"/", {}, NO_PEER)
        made.body = json.dumps({"verb": name, "arguments": arguments}).encode()
        return made


class RemoteOperations:
    """Runs them for the operators of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._dispatcher = OperationDispatcher(node, EDGE)

    def serve(self, context: OperationContext) -> None:
        """Let other nodes ask for what this one has for itself."""
        self._node.edges[EDGE] = operations_api(self._decide, context, "nodes")

    def has(self, verb: str) -> bool:
        """Whether shards or other nodes take part in an operation; the catalog replica is enough for the others."""
        return OPERATIONS[verb].scope in ("shard", "shards") or verb in IN_CLUSTER

    async def perform(self, context: OperationContext, verb: str, arguments: Arguments) -> Any:
        """Run an operation where its scope says; raises what is refused."""
        operation, remote = OPERATIONS[verb], RemoteCall(self._dispatcher, verb, arguments)
        shard_id = self._dispatcher.shard_id_of(*remote.stream) if operation.scope == "shard" else None
        run, request = partial(self._run, context, remote), remote.request(verb, arguments)
        task = Task(operation, remote, request, run, IN_CLUSTER.get(verb, PLAIN), shard_id=shard_id)
        answer: Answer = await awaited(self._dispatcher.run(task))
        value = await value_of(answer)
        if answer.status >= REFUSED:
            raise error_class(value["error"])(value["message"])
        return value

    async def _run(self, context: OperationContext, remote: RemoteCall) -> Response:
        return json_response(await self._decide(lambda: call(context, remote.name, remote.arguments)))

    async def _decide(self, change: Callable[[], Any]) -> Any:
        return await self._node.decide(lambda core: change())


def _forgotten(remote: RemoteCall) -> Callable[[Broker], Any]:
    """Deletes a stream from the catalog after its shard."""
    return DeleteQueue(*remote.stream).apply


async def _described(remote: RemoteCall, answer: Answer) -> Answer:
    """A stream that was made, as its shard lists it."""
    vhost, name = remote.stream
    request = remote.request("streams.list", {"vhost": vhost})
    rows = await value_of(await awaited(remote.cluster.ask(remote.cluster.shard_id_of(vhost, name), request, True)))
    return json_response(next(row for row in rows if row["name"] == name))


def _listed(remote: RemoteCall, parts: Parts) -> Response:
    """The rows of all shards, by virtual host, stream or queue, and name."""
    rows = [row for rows in parts.values.values() for row in rows]
    return json_response(sorted(rows, key=lambda row: [row.get(each, "") for each in PLACE]))


def _gathered(key: Callable[[Arguments], Any], limit: int | None = None) -> InCluster:
    """The rows of all nodes that answer, each with its node."""

    def merge(remote: RemoteCall, parts: Parts) -> Response:
        rows = [{**row, "node": name} for name, rows in sorted(parts.values.items()) for row in rows]
        most = len(rows) if limit is None else max(0, remote.arguments.get("limit", limit))
        return json_response(sorted(rows, key=key)[:most])

    return InCluster(merge=merge)


def _to_all_shards(remote: RemoteCall) -> dict[str, Request]:
    """The request to every shard: one without queues has a journal, too."""
    return dict.fromkeys(remote.cluster.all_shard_ids(), remote.request(remote.name, remote.arguments))


def _sealed(remote: RemoteCall, parts: Parts) -> Response:
    return json_response({"sealed": any(each["sealed"] for each in parts.values.values())})


async def _rotations(remote: RemoteCall, parts: Parts) -> Answer:
    """The rotations of all journals as one; a shard that has moved meanwhile has forgotten its own, and begins anew."""
    moved = [shard_id for shard_id, each in parts.values.items() if each["state"] == "none"]
    if len(moved) == len(parts.values):
        return json_response(journal.merged(parts.values.values()))
    begin = remote.request("journal.rotate-key", {})
    begun = await remote.cluster.ask_all(dict.fromkeys(moved, begin), resend=False)
    refusal_of_one = next((each for each in begun.answers.values() if each.status >= REFUSED), None)
    return refusal_of_one or json_response(journal.merged({**parts.values, **begun.values}.values()))


ROTATIONS = InCluster(scatter=_to_all_shards, merge=_rotations)
IN_CLUSTER = {
    "streams.create": InCluster(finish=_described),
    "streams.delete": InCluster(after=_forgotten),
    **dict.fromkeys(("streams.list", "groups.list", "reservations.list"), InCluster(merge=_listed)),
    "journal.seal": InCluster(scatter=_to_all_shards, merge=_sealed),
    **dict.fromkeys(("journal.rotate-key", "journal.rotation-status"), ROTATIONS),
    "alerts.firing": _gathered(lambda row: (row["state"], row["since_ms"])),  # firing before pending
    "alerts.history": _gathered(lambda row: -row["at_ms"], alerts.EVENTS),
    "audit.list": _gathered(lambda row: -row["at_ms"], server.ROWS),
}
