"""Forwards requests to the shard or node that answers them: over a link, unless this process has it.

    ask(shard, edge, request)                                   to the owner of a shard, or its next owner
    ask_node(name, edge, request), everywhere(edge, request)    to one node or to all

While no node has a shard, a request waits some seconds for its next owner. When a node is lost that may have run a
request, the request is sent again only if it may run twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from leveret.cluster.forwarding.handler import Api, ForwardedHandler
from leveret.cluster.forwarding.request import ForwardedRequest, NotDone, PendingForward, request_of
from leveret.core.errors import BrokerClosed, InvalidArgument, JournalFailed, LeveretError, TooMany, Unreachable
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answer, Answered

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.cluster.rpc.link import PeerLink

PATIENCE_S = 10.0  # for some node to have a shard
RETRY_S = 0.05
GATHERED_S = 2.0  # for nodes that are asked all together
FORWARDED_MAX = 20_000  # requests of other nodes at a time: each has a body, a future and a place in a line
BODIES_BYTES_MAX = 256 << 20  # of all of them
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
REFUSED = 400
RETRY_AFTER = (("Retry-After", "1"),)


class Forwarder:
    """One for each node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._forwarded_handlers: set[ForwardedHandler] = set()
        self._bodies_bytes = 0
        self._patient: set[PendingForward] = set()
        self.forwarded = 0
        """How many requests were sent to other nodes."""

    # Asking

    def ask(self, shard_id: str, edge: str, request: Request, again: bool = False) -> Answered:
        """The answer of a shard; `again`: the request may be sent twice, whatever its method."""
        shard = self._node.shards.get(shard_id)
        if shard is not None and shard.is_proven():
            return shard.edges.by_name[edge].handler(request)
        again = again or request.method in SAFE
        link = self._link(shard_id)
        sent_request = None if link is None else self._send(link, {"edge": edge, "shard": shard_id}, request)
        pending = PendingForward(
            partial(self._find, shard_id, edge, request, again), self._patient.discard, sent_request
        )
        if again and not pending.done:
            self._patient.add(pending)
        return pending

    def close(self) -> None:
        """End the requests that wait here and that another node can answer as well."""
        for each in list(self._patient):
            each.cut_off()

    async def _find(self, shard_id: str, edge: str, request: Request, again: bool, failed: Exception | None) -> Answer:
        """Ask the owner of the shard, or the next one; `failed`: why the owner that was asked has not answered."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PATIENCE_S
        while True:
            if failed is not None:
                if not isinstance(failed, NotDone) and not again:
                    detail = f"the node that has shard {shard_id} was lost, perhaps before it had done it: {failed}"
                    raise Refusal(503, detail, RETRY_AFTER)
                if loop.time() > deadline_s:
                    raise Refusal(503, f"no node has shard {shard_id} now: try again", RETRY_AFTER)
                await asyncio.sleep(RETRY_S)
            asked_s = loop.time()
            try:
                return await self._try(shard_id, edge, request)
            except (NotDone, Unreachable, BrokerClosed, JournalFailed) as error:
                failed = error
                if loop.time() - asked_s > PATIENCE_S:  # it was there, and about to answer
                    deadline_s = loop.time() + PATIENCE_S

    async def _try(self, shard_id: str, edge: str, request: Request) -> Answer:
        """Ask the owner that the shard has now."""
        shard = self._node.shards.get(shard_id)
        if shard is not None and shard.is_proven():
            answer = shard.edges.by_name[edge].handler(request)
            return await answer if isinstance(answer, Awaitable) else answer
        link = self._link(shard_id)
        if link is None:
            raise NotDone(f"no node within reach has shard {shard_id}")
        return await self._send(link, {"edge": edge, "shard": shard_id}, request).answer()

    def _link(self, shard_id: str) -> PeerLink | None:
        owner = self._node.owner_of(shard_id)
        return None if owner is None else self._node.links.get(owner)

    async def ask_node(self, name: str, edge: str, request: Request) -> Answer:
        """The answer of a node; a refusal is an answer, as it is over a link."""
        if name == self._node.name:
            own = self._node.edges[edge]
            try:
                answer = own.handler(request)
                return await answer if isinstance(answer, Awaitable) else answer
            except LeveretError as error:
                return own.refuse(error)
        link = self._node.links.get(name)
        if link is None:
            raise Refusal(503, f"node '{name}' cannot be reached from '{self._node.name}': try again", RETRY_AFTER)
        try:
            return await self._send(link, {"edge": edge}, request).answer()
        except (NotDone, Unreachable) as error:
            raise Refusal(503, f"node '{name}' did not answer: {error}", RETRY_AFTER) from None

    async def everywhere(self, edge: str, request: Request, timeout_s: float = GATHERED_S) -> dict[str, Answer]:
        """The answers of all nodes by name, without those that do not answer in time."""
        names = [self._node.name, *self._node.links]
        asking = {name: asyncio.ensure_future(self.ask_node(name, edge, request)) for name in names}
        try:
            await asyncio.wait(asking.values(), timeout=timeout_s)
        finally:
            late = [task for task in asking.values() if not task.done()]
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        return {
            name: task.result() for name, task in asking.items() if not task.cancelled() and task.exception() is None
        }

    def _send(self, link: PeerLink, head: dict[str, Any], request: Request) -> ForwardedRequest:
        self.forwarded += 1
        return ForwardedRequest(link, {**head, "catalog": self._node.catalog.version}, request)

    # Answering

    def opened(self, link: PeerLink, number: int, head: Mapping[str, Any]) -> ForwardedHandler:
        """Begin a request of another node; raises if it is refused, and then nothing was done."""
        edge = self._edge(head)
        request, size = request_of(dict(head))
        if len(self._forwarded_handlers) >= FORWARDED_MAX or self._bodies_bytes + size > BODIES_BYTES_MAX:
            raise TooMany(f"node '{self._node.name}' has too many requests of others: try again")
        forwarded_handler = ForwardedHandler(link, number, edge, request, size, self._done)
        self._forwarded_handlers.add(forwarded_handler)
        self._bodies_bytes += size
        return forwarded_handler

    def _edge(self, head: Mapping[str, Any]) -> Api:
        name, shard_id, node = str(head["edge"]), head.get("shard"), self._node
        if int(head.get("catalog", 0)) > node.catalog.version:
            node.catalog.hint(int(head["catalog"]))
            raise Unreachable(f"node '{node.name}' does not know a definition yet")
        shard = None if shard_id is None else node.shards.get(str(shard_id))
        if shard_id is not None and (shard is None or not shard.is_proven()):
            raise Unreachable(f"shard {shard_id} is not on node '{node.name}', or it is unknown where it is")
        edges = node.edges if shard is None else shard.edges.by_name
        if name not in edges:
            raise InvalidArgument(f"node '{node.name}' has nothing that answers '{name}': is it of another version?")
        return edges[name]

    def _done(self, forwarded_handler: ForwardedHandler) -> None:
        if forwarded_handler in self._forwarded_handlers:
            self._forwarded_handlers.remove(forwarded_handler)
            self._bodies_bytes -= forwarded_handler.size
