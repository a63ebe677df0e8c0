"""Runs each operation where the registry says: the one place of a node where that is decided.

    shard      by the owner of the shard of the queue, stream or sink in question
    shards     by every shard that has queues, or by those that the endpoint names; the endpoint merges the answers
    catalog    here, once this node knows whether the queue in question was auto-deleted
    node       by the node that is named, or by this one
    nodes      by every node; the endpoint merges the answers

What an endpoint adds to the scope of its operation is described in protocols/http/cluster.py. The registry also says
whether a request may be sent twice when the answer to the first one was lost.

Rows of queues and streams come from the shards that have them. A node asks each other node once for the rows of a page
that it has. A row that does not come in time is shown as the catalog has it, without messages. A queue that
its shard has auto-deleted is None: the catalog follows a moment later.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from leveret.cluster.forwarding.forwarder import PATIENCE_S, REFUSED, RETRY_AFTER, RETRY_S
from leveret.core.errors import InvalidArgument, LeveretError, TooMany, Unreachable
from leveret.core.queue import Queue
from leveret.operations.operation import Operation
from leveret.protocols.http.cluster import PLAIN, InCluster, Parts, awaited, marked
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Answer, Answered, Response, Streamed, json_response

if TYPE_CHECKING:
    from leveret.cluster.node import Node

ASKED_S = 2.0  # for shards whose answers are merged, and for the end of an answer in parts
ANSWER_BYTES_MAX = 64 << 20  # of one answer: all of it is in memory
FAILED = 500
ROWS_EDGE = "rows"
ROWS_MAX = 2_000  # that one request is about
PRESENCE = "presence"  # no row: only whether a queue is there
WAIT_S = 2.0  # for the nodes that have something of a page
NO_PEER = HttpPeer("", 0)
Row = dict[str, Any]
NO_OPTIONS: Mapping[str, Any] = {}

T = TypeVar("T")


class Task(NamedTuple):
    """One request, as the API that it came to has read it."""

    operation: Operation
    call: Any
    request: Request
    """The request that shards and nodes are asked."""
    run: Callable[[], Answered]
    """Runs the operation on this node."""
    extra: InCluster = PLAIN
    vhost: str = ""
    queue: str | None = None
    """The queue whose pending auto-deletion an operation on the catalog waits for."""
    shard_id: str | None = None
    """The shard of the queue, stream or sink; None: this node refuses the request, as a single server does."""
    node: str | None = None
    resend: bool = False
    """Whether the request may be sent twice although its operation is not idempotent: it has a key."""


class OperationDispatcher:
    """Runs the operations of one API for the clients of a node. It implements Cluster of protocols/http/cluster.py."""

    def __init__(self, node: Node, edge: str, *, partial: bool = False) -> None:
        """`edge` names the API on shards and nodes; `partial`: answers may lack shards that do not answer in time."""
        self.node, self.name = node, node.name
        self.shard_id_of, self.owner_of = node.shard_id_of, node.owner_of
        self._edge = edge
        self._partial = partial
        self._rows = ClusterRows(node)
        self._auto_deleted = AutoDeleted(node, self._rows)
        self._scopes: dict[str, Callable[[Task], Answered]] = {
            "shard": self._in_shard,
            "shards": self._in_shards,
            "catalog": self._on_catalog,
            "node": self._on_node,
            "nodes": self._on_nodes,
        }

    def run(self, task: Task) -> Answered:
        return self._scopes[task.operation.scope](task)

    # Scopes

    def _in_shard(self, task: Task) -> Answered:
        if task.shard_id is None:
            return task.run()
        resend, extra = task.resend or task.operation.idempotent, task.extra
        if extra is PLAIN:
            return self.node.forwarder.ask(task.shard_id, self._edge, task.request, resend)
        change = None if extra.after is None else extra.after(task.call)
        return self._complete(task, self.ask(task.shard_id, task.request, resend), change)

    async def _complete(self, task: Task, answer: Answered, change: Callable[[Any], Any] | None) -> Answer:
        """Let the catalog follow what a shard has done, then complete the answer; a refusal stays as it is."""
        made: Answer = await awaited(answer)
        if made.status >= REFUSED:
            return made
        if change is not None:
            await self.node.decide(change)
        return made if task.extra.finish is None else await task.extra.finish(task.call, made)

    def _on_catalog(self, task: Task) -> Answered:
        waiting = None if task.queue is None else self._auto_deleted.wait(task.vhost, task.queue)
        if waiting is None and task.extra.finish is None:
            return task.run()
        return self._settled(task, waiting)

    async def _settled(self, task: Task, waiting: Awaitable[None] | None) -> Answer:
        if waiting is not None:
            await waiting
        return await self._complete(task, task.run(), None)

    async def _in_shards(self, task: Task) -> Answer:
        merge, scatter = task.extra.merge, task.extra.scatter
        if merge is None:
            return await awaited(task.run())
        if scatter is None:
            requests: Mapping[str, Request] = dict.fromkeys(self.shard_ids(task.vhost or None), task.request)
        else:
            requests = scatter(task.call)
        resend = task.resend or task.operation.idempotent
        if self._partial and task.operation.idempotent:
            parts = await self.ask_shards(requests, resend)
        else:
            parts = await self.ask_all(requests, resend)
        refusal = next((each for each in parts.answers.values() if each.status >= REFUSED), None)
        return refusal or marked(await awaited(merge(task.call, parts)), parts.missing)

    def _on_node(self, task: Task) -> Answered:
        if task.node is None or task.node == self.name:
            return task.run()
        return self._on_other_node(task, task.node)

    async def _on_other_node(self, task: Task, name: str) -> Answer:
        try:
            return await self.node.forwarder.ask_node(name, self._edge, task.request)
        except Refusal:
            if task.extra.merge is None:
                raise
            return await awaited(task.extra.merge(task.call, Parts({}, [name], {})))

    async def _on_nodes(self, task: Task) -> Answer:
        if task.extra.merge is None:
            return await awaited(task.run())
        answers = await self.node.forwarder.everywhere(self._edge, task.request)
        if task.extra.raw:
            missing = [name for name in self.names if name not in answers]
            return await awaited(task.extra.merge(task.call, Parts({}, missing, answers)))
        own = answers.get(self.name)
        if own is not None and own.status >= REFUSED:
            return own
        values = await values_of(answers)
        missing = [name for name in self.names if name not in values]
        return marked(await awaited(task.extra.merge(task.call, Parts(values, missing, answers))), missing)

    # What endpoints use: see Cluster

    @property
    def names(self) -> list[str]:
        return sorted({self.node.name, *self.node.present})

    def shard_ids(self, vhost: str | None = None) -> list[str]:
        """The shards that have queues of a virtual host, or of any."""
        known = self.node.catalog.replica.shard_ids.items()
        return sorted({shard_id for (where, _), shard_id in known if vhost in (None, where)})

    def all_shard_ids(self) -> list[str]:
        return [str(number) for number in range(self.node.catalog.replica.placements.shards)]

    def ask(self, shard_id: str, request: Request, resend: bool = False) -> Answered:
        """The answer of a shard; `resend`: the request may be sent twice."""
        return self.node.forwarder.ask(shard_id, self._edge, request, resend)

    async def ask_shards(self, requests: Mapping[str, Request], resend: bool = True) -> Parts:
        """The answers of some shards, as far as they come in time."""

        async def ask(shard_id: str, request: Request) -> Answer:
            try:
                return await awaited(self.ask(shard_id, request, resend))
            except LeveretError as error:
                return Response(FAILED, str(error).encode())

        found = await _in_time({shard_id: ask(shard_id, each) for shard_id, each in requests.items()})
        answers = {shard_id: each for shard_id, each in found.items() if each.status < FAILED}
        values = await values_of(answers)
        missing = sorted(f"shard {each}" for each in requests if each not in values)
        return Parts(values, missing, answers)

    async def ask_all(self, requests: Mapping[str, Request], resend: bool) -> Parts:
        """The answers of all these shards; raises what keeps one of them from answering, but no refusal."""

        async def ask(shard_id: str) -> Answer:
            return await awaited(self.ask(shard_id, requests[shard_id], resend))

        answers = dict(zip(requests, await asyncio.gather(*map(ask, requests)), strict=True))
        good = {name: each for name, each in answers.items() if each.status < REFUSED}
        return Parts({name: await value_of(each) for name, each in good.items()}, [], answers)

    async def rows(
        self, kind: str, vhost: str, names: Iterable[str], options: Mapping[str, Any] = NO_OPTIONS
    ) -> Mapping[str, Row | None]:
        """Queues or streams as their shards describe them for an API; None: auto-deleted a moment ago."""
        return await self._rows.of(kind, vhost, list(names), options)


async def value_of(answer: Answer) -> Any:
    """The JSON of an answer."""
    body = answer.body if isinstance(answer, Response) else await _joined(answer)
    return json.loads(body) if body else None


async def _joined(answer: Streamed) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    async with aclosing(answer.parts) as stream:
        async for part in stream:
            size_bytes += len(part)
            if size_bytes > ANSWER_BYTES_MAX:
                raise TooMany(f"another node has over {ANSWER_BYTES_MAX} bytes to tell: ask for some by name")
            parts.append(part)
    return b"".join(parts)


async def values_of(answers: Mapping[str, Answer]) -> dict[str, Any]:
    """The JSON of answers that are no refusals and come to their end in time."""
    good = {name: _whole(each) for name, each in answers.items() if each.status < REFUSED}
    return {name: found[0] for name, found in (await _in_time(good)).items() if found}


async def _whole(answer: Answer) -> tuple[Any] | tuple[()]:
    try:
        return (await value_of(answer),)
    except Unreachable:
        return ()


async def _in_time(asked: Mapping[str, Coroutine[Any, Any, T]]) -> dict[str, T]:
    """The results of those that end in time."""
    waiting = {name: asyncio.ensure_future(each) for name, each in asked.items()}
    if waiting:
        await asyncio.wait(waiting.values(), timeout=ASKED_S)
    late = [task for task in waiting.values() if not task.done()]
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return {name: task.result() for name, task in waiting.items() if not task.cancelled()}


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
                answer = await self._node.forwarder.ask_node(owner, ROWS_EDGE, request)
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
