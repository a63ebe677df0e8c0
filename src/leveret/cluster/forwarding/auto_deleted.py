"""Queues that their shard has just deleted by itself: who asks waits until the copy of the catalog has heard of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from leveret.cluster.forwarding.forwarder import PATIENCE_S, RETRY_AFTER, RETRY_S
from leveret.cluster.forwarding.rows import PRESENCE, ClusterRows
from leveret.protocols.http.request import Refusal

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.core.queue import Queue

T = TypeVar("T")


class AutoDeleted:
    """Those of a cluster, as one node hears of them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._rows = ClusterRows(node)

    def wait(self, vhost: str, name: str) -> Awaitable[None] | None:
        """When the catalog knows whether a queue is there; None: it does, since this one does not go by itself."""
        virtual_host = self._node.catalog.replica.broker.topology.vhosts.get(vhost)
        queue = None if virtual_host is None else virtual_host.queues.get(name)
        if queue is None or not (queue.auto_delete or queue.policy.expires_ms):
            return None
        return self._wait(queue)

    def then(self, vhost: str, name: str, do: Callable[[], T | Awaitable[T]]) -> T | Awaitable[T]:
        """Do something by what the catalog says of a queue, when it knows."""
        waiting = self.wait(vhost, name)
        return do() if waiting is None else _after(waiting, do)

    async def _wait(self, queue: Queue) -> None:
        """Until the shard has a queue, does not answer, or the copy of the catalog has not got that queue either."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PATIENCE_S
        while not queue.deleted and await self._has_gone(queue.vhost, queue.name):
            if loop.time() > deadline_s:
                raise Refusal(503, f"queue '{queue.name}' goes, and not all nodes know: try again", RETRY_AFTER)
            await asyncio.sleep(RETRY_S)

    async def _has_gone(self, vhost: str, name: str) -> bool:
        told = await self._rows.of(PRESENCE, vhost, [name])
        return name in told and told[name] is None


async def _after(waiting: Awaitable[None], do: Callable[[], T | Awaitable[T]]) -> T:
    await waiting
    done = do()
    return await done if isinstance(done, Awaitable) else done
