"""REST on a node: where each operation is done.

    what names a queue or a stream       in the shard that has it
    definitions                          decided for all nodes, on the copy of the catalog
    lists                                names of the copy, figures of the shards
    publishing to an exchange            in every shard that has a queue for the message
    sinks                                in a shard by their name, which sends rows to the others

Who may do what is asked here, and what is done is noted here; a shard asks once more, as it is the same code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import orjson

from leveret.cluster.coordination.placement import stable_hash
from leveret.cluster.forwarding.audit import ClusterAudit
from leveret.cluster.forwarding.auto_deleted import AutoDeleted
from leveret.cluster.forwarding.rows import ClusterRows
from leveret.core.changes import DeleteQueue
from leveret.embedded.outgoing import prepare
from leveret.protocols.http.idempotency import KEY_HEADER
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.management.cluster.asking import UNANSWERED
from leveret.protocols.rest.api import ACTS, OPERATIONS, REFUSED, RestApi
from leveret.protocols.rest.exchanges import publishable, published
from leveret.protocols.rest.operation import Answer, Operation, RestCall
from leveret.protocols.rest.sinks import sink_of

if TYPE_CHECKING:
    from leveret.cluster.forwarding.catalog_broker import CatalogBroker
    from leveret.cluster.node import Node
    from leveret.observability.audit import Audit
    from leveret.protocols.http.idempotency import Idempotency
    from leveret.security.access import Access

EDGE = "rest"

RestHandler = Callable[["NodeApi", Operation, RestCall], Answer | Awaitable[Answer]]


class NodeApi(RestApi):
    """Every operation on the queues of a whole cluster."""

    def __init__(
        self, async_broker: CatalogBroker, access: Access, audit: Audit, idempotency: Idempotency, node: Node
    ) -> None:
        """Ask the shards by a node; `async_broker` is that of definitions."""
        super().__init__(async_broker, access, audit, None, idempotency)
        self.node = node
        self.rows = ClusterRows(node)
        self.auto_deleted = AutoDeleted(node)
        self.acts = ClusterAudit(node, audit)
        self.shards = node.catalog.replica.placements.shards

    def do(self, operation: Operation, call: RestCall) -> Answer | Awaitable[Answer]:
        """Do what is asked for, where it is done."""
        return HANDLERS[operation.method, operation.path](self, operation, call)

    def shard_id_of(self, call: RestCall, name: str) -> str | None:
        """The shard of a queue that every client may use; None: it will be refused, as on a single server."""
        vhost = call.async_broker.runtime.core.topology.vhosts.get(call.vhost)
        found = None if vhost is None else vhost.queues.get(name)
        return None if found is None or found.owner is not None else self.node.shard_id_of(call.vhost, name)


def here(api: NodeApi, operation: Operation, call: RestCall) -> Answer | Awaitable[Answer]:
    """On the copy of the catalog; what changes it is decided for all nodes."""
    api.read(operation, call)
    return operation.run(call)


def settled(way: RestHandler) -> RestHandler:
    """The same, once the copy knows whether the queue in the path is there."""

    def asked(api: NodeApi, operation: Operation, call: RestCall) -> Answer | Awaitable[Answer]:
        return api.auto_deleted.then(call.vhost, call.request.parameters["queue"], lambda: way(api, operation, call))

    return asked


def bound(api: NodeApi, operation: Operation, call: RestCall) -> Answer | Awaitable[Answer]:
    """On the copy, once it knows whether the queue is there that is to be bound."""
    api.read(operation, call)
    return api.auto_deleted.then(call.vhost, call.body["destination"], lambda: operation.run(call))


def in_shard(api: NodeApi, operation: Operation, call: RestCall) -> Answer | Awaitable[Answer]:
    """In the shard of the queue or stream that the path names."""
    named = call.request.parameters
    shard_id = api.shard_id_of(call, named["queue"] if "queue" in named else named["stream"])
    if shard_id is None:
        return here(api, operation, call)
    again = operation.path in TAKING or (operation.keyed and KEY_HEADER in call.request.headers)
    return api.node.forwarder.ask(shard_id, EDGE, call.request, again)


async def shown(api: NodeApi, operation: Operation, call: RestCall) -> Answer:
    """Decided here, and described by the shard."""
    answer = await _awaited(here(api, operation, call))
    return await _with_rows(api, operation.path.split("/")[1], call, answer)


async def listed(api: NodeApi, operation: Operation, call: RestCall) -> Answer:
    """Names by the copy, the rest by the shards."""
    return await _with_rows(api, operation.path[1:], call, await _awaited(here(api, operation, call)))


async def _with_rows(api: NodeApi, kind: str, call: RestCall, answer: Answer) -> Answer:
    """An answer about queues or streams with what their shards say about them."""
    if not isinstance(answer, Response) or answer.status >= REFUSED:
        return answer
    told = orjson.loads(answer.body)
    rows: list[dict[str, Any]] = told.get(kind, [told])
    found = await api.rows.of(kind, call.vhost, [row["name"] for row in rows])
    for row in rows:
        row |= found.get(row["name"]) or {}
    if kind in told:  # a list: what is not in its shard any more is not in it
        told[kind] = [row for row in rows if found.get(row["name"], row) is not None]
    return json_response(told, answer.status, answer.headers)


async def deleted(api: NodeApi, operation: Operation, call: RestCall) -> Answer:
    """In its shard first, which knows whether it is empty; then everywhere."""
    answer = await _awaited(in_shard(api, operation, call))
    if answer.status < REFUSED:
        named = call.request.parameters
        name = named["queue"] if "queue" in named else named["stream"]
        await api.node.decide(DeleteQueue(call.vhost, name).apply)
    return answer


async def counted(api: NodeApi, operation: Operation, call: RestCall) -> Answer:
    """In the shard, with the dead letters that lie in others."""
    answer = await _awaited(in_shard(api, operation, call))
    if not isinstance(answer, Response) or answer.status >= REFUSED:
        return answer
    targets = _dead_letter_queues(api, call, call.request.parameters["queue"])
    told = orjson.loads(answer.body)
    if told["dlq_count"] is None or not all(call.allows("queue.look", {"queue": each}) for each in targets):
        return json_response({**told, "dlq_count": None}, answer.status, answer.headers)
    rows = await api.rows.of("queues", call.vhost, targets)
    if not rows:
        return answer
    told["dlq_count"] += sum(row["ready"] for row in rows.values() if row is not None)
    return json_response(told, answer.status, answer.headers)


def _dead_letter_queues(api: NodeApi, call: RestCall, name: str) -> list[str]:
    """The queues of other shards that the dead letters of a queue go to."""
    shard_ids = api.node.catalog.replica.shard_ids
    with call.async_broker.runtime as core:
        vhost = core.topology.vhost(call.vhost)
        policy = vhost.queue(name).policy
        exchange, key = policy.dead_letter_exchange, policy.dead_letter_routing_key or name
        if exchange is None or exchange not in vhost.exchanges:
            return []
        targets = [each.name for each in vhost.route(exchange, [key], None, None)]
    return [each for each in targets if shard_ids.get((call.vhost, each)) != shard_ids.get((call.vhost, name))]


async def spread(api: NodeApi, operation: Operation, call: RestCall) -> Answer:
    """In every shard that has a queue for the message; done when all of them have it."""
    api.read(operation, call)
    routing_key, message = publishable(call)
    prepared = prepare(message, call.async_broker.broker.options.message_bytes_max)
    with call.async_broker.runtime as core:
        queues = core.route_through(call.vhost, call.exchange, routing_key, prepared.properties)
        shard_ids = sorted({api.node.shard_id_of(call.vhost, queue.name) for queue in queues})
    answers, refused = await _in_shards(api, shard_ids, call, KEY_HEADER in call.request.headers)
    if refused is not None:
        return refused
    ids = [orjson.loads(each.body)["message_id"] for each in answers]
    return published(next((each for each in ids if each is not None), None))


def in_shard_of_sink(api: NodeApi, operation: Operation, call: RestCall) -> Answer | Awaitable[Answer]:
    """In the shard that has the sink, by its name; whatever is asked of a sink may be asked twice."""
    shard_id = stable_hash("sink", *sink_of(call)) % api.shards
    return api.node.forwarder.ask(str(shard_id), EDGE, call.request, again=True)


async def all_sinks(api: NodeApi, operation: Operation, call: RestCall) -> Answer:
    """What all shards have."""
    answers, refused = await _in_shards(api, map(str, range(api.shards)), call, again=True)
    if refused is not None:
        return refused
    rows = [row for each in answers for row in orjson.loads(each.body)["sinks"]]
    return json_response({"sinks": sorted(rows, key=lambda row: row["name"])})


async def acts_of_all(api: NodeApi, operation: Operation, call: RestCall) -> Answer:
    """What was asked of any node."""
    api.read(operation, call)
    rows, lacking = await api.acts.recent(call.query.get("limit", ACTS), call.query.get("kind"))
    headers = ((UNANSWERED, ", ".join(lacking)),) if lacking else ()
    return json_response({"acts": rows}, 200, headers)


async def _in_shards(
    api: NodeApi, shard_ids: Iterable[str], call: RestCall, again: bool
) -> tuple[list[Response], Response | None]:
    """What several shards answer, and the first refusal."""

    async def ask(shard_id: str) -> Answer:
        return await _awaited(api.node.forwarder.ask(shard_id, EDGE, call.request, again))

    answers = [each for each in await asyncio.gather(*map(ask, shard_ids)) if isinstance(each, Response)]
    return answers, next((each for each in answers if each.status >= REFUSED), None)


async def _awaited(answer: Answer | Awaitable[Answer]) -> Answer:
    return await answer if isinstance(answer, Awaitable) else answer


TAKING = frozenset(("/queues/{queue}/dequeue",))
"""What may be asked for twice: what the first one has taken comes again."""

DECIDED = {
    ("PUT", "/queues/{queue}"): settled(shown),
    ("PATCH", "/queues/{queue}"): settled(shown),
    ("POST", "/queues/{queue}/pause"): settled(here),
    ("POST", "/queues/{queue}/resume"): settled(here),
    ("PUT", "/streams/{stream}"): shown,
    ("DELETE", "/queues/{queue}"): deleted,
    ("DELETE", "/streams/{stream}"): deleted,
}
OTHERS: dict[tuple[str, str], RestHandler] = {
    ("GET", "/queues"): listed,
    ("GET", "/streams"): listed,
    ("GET", "/queues/{queue}/stats"): counted,
    ("POST", "/exchanges/{exchange}/messages"): spread,
    ("POST", "/exchanges/{exchange}/bindings"): bound,
    ("GET", "/sinks"): all_sinks,
    ("GET", "/audit"): acts_of_all,
}


def _usual(operation: Operation) -> RestHandler:
    if "{sink}" in operation.path:
        return in_shard_of_sink
    return in_shard if "{queue}" in operation.path or "{stream}" in operation.path else here


HANDLERS: dict[tuple[str, str], RestHandler] = {
    **{(each.method, each.path): _usual(each) for each in OPERATIONS},
    **DECIDED,
    **OTHERS,
}
