"""The shards of a node as its coordinator wants them: opened at an epoch, served, given up.

Messages that are not persistent go with a shard that is given to another node on purpose:

    let go       they are journaled as they are, and a definition says that the next owner may have them
    taken over   it does: they stay, and no owner after this one gets them
    otherwise    they are dropped, as by any restart of a broker

What is in queues that are not durable is lost in any case.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from leveret.cluster.coordination.placement import LOCAL
from leveret.cluster.forwarding.handler import MakeApis, no_apis
from leveret.cluster.node import Node
from leveret.cluster.shards.shard import Shard
from leveret.core.broker import Broker as Core
from leveret.core.definition_log import Kind
from leveret.core.errors import Fenced, JournalFailed, LeveretError
from leveret.core.restore import drop_transient, transient
from leveret.embedded.broker import Broker, open
from leveret.observability.logs import Log
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.server import AmqpServer
from leveret.protocols.net.admission import ConnectionBudget
from leveret.runtime.threads import Threads
from leveret.security.access import Access
from leveret.storage.journal.postgres.store import TableStore

NO_SOCKETS = ConnectionBudget(0, 0, 0)  # a client of a shard was let in by a proxy

THREADS_MAX = 16
"""Shards that are opened, closed or looked at at the same time; with more, what waits would hold up what works."""

LOG = Log("node")


class Served(NamedTuple):
    """A shard that is open."""

    broker: Broker
    server: AmqpServer
    epoch: int


class Hosting:
    """Opens and closes the brokers of shards."""

    def __init__(
        self,
        node: Node,
        access: Access,
        limits: AmqpLimits,
        open_at: Callable[[int, int], Broker],
        fenced: Callable[[int], None],
        make_apis: MakeApis = no_apis,
    ) -> None:
        """`open_at` takes a shard and its epoch; `fenced` is told of a shard that has another owner.

        `make_apis` makes what answers requests of HTTP about a shard.
        """
        self._node = node
        self._access = access
        self._limits = limits
        self._open_at = open_at
        self._fenced = fenced
        self._make_apis = make_apis
        self._served: dict[int, Served] = {}
        # Threads of their own: each may wait for a database that does not answer, and others log in meanwhile.
        self._threads = Threads(THREADS_MAX, "leveret-shards")
        self.closed: Callable[[int, int], Awaitable[None]] = _nothing
        """What is done with a shard, closed at an epoch, before others are told that this node has it no more."""
        self._local: Served | None = self._prepare(LOCAL + node.name, open(), 0)
        node.serve(self._shard(LOCAL + node.name, self._local))

    def _prepare(self, shard_id: str, broker: Broker, epoch: int) -> Served:
        """Make a broker that is open ready to be served."""
        self._node.prepare(shard_id, broker.runtime.core)
        with broker.runtime as core:
            unpack(core)
            server = AmqpServer(broker.runtime, self._access, self._limits, NO_SOCKETS)
        return Served(broker, server, epoch)

    def _shard(self, shard_id: str, served: Served) -> Shard:
        return Shard(shard_id, served.server.hub, self._make_apis(shard_id, served.broker.runtime))

    # For the coordinator

    async def take_over(self, shard: int, epoch: int) -> bool:
        """Begin to serve a shard; False when another owner has a higher epoch."""
        loop = asyncio.get_running_loop()
        try:
            broker = await self._opened(shard, epoch)
        except Fenced:
            return False
        store = broker.runtime.store
        assert store is not None, "a shard is in a database"

        def failed(error: JournalFailed) -> None:
            broker.runtime.fail(error)
            loop.call_soon_threadsafe(self._failed, shard, error)

        store.commit.on_failure = failed
        served: Served | None = None
        try:
            served = prepared = self._prepare(str(shard), broker, epoch)
            # Only now: a queue that its last owner had is in the catalog by the time that it has lost the shard.
            await self._node.catalog.catch_up(lambda: self._node.serve(self._shard(str(shard), prepared)))
        except BaseException:
            self._node.forsake(str(shard))
            await (self._threads.run(broker.close) if served is None else self._end(served))
            raise
        self._served[shard] = served
        return True

    async def _opened(self, shard: int, epoch: int) -> Broker:
        """The broker of a shard; if this is cancelled it is opened nevertheless, and then closed."""
        opening = self._threads.run(self._open_at, shard, epoch)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(Exception):  # no caller asks any more why it could not be opened, or closed
                await self._threads.run((await opening).close)
            raise

    def troubles(self) -> dict[int, str | None]:
        """The shards that are open, each with the reason why its database does not take what is sent, if so."""
        stores = {shard: served.broker.runtime.store for shard, served in self._served.items()}
        return {shard: None if store is None else store.trouble for shard, store in stores.items()}

    async def check(self, shard: int, epoch: int) -> bool:
        served = self._served.get(shard)
        if served is None or served.epoch != epoch:
            return False
        store = served.broker.runtime.store
        assert isinstance(store, TableStore), "a shard is in a database"
        return await self._threads.run(store.is_owner)

    async def drain(self, shard: int) -> None:
        self._node.forsake(str(shard))
        served = self._served.get(shard)
        if served is not None:
            await self._threads.run(_pack, served.broker)
        await self._let_go(shard)

    async def drop(self, shard: int) -> None:
        await self._let_go(shard)

    async def stop(self) -> None:
        """Close all that is still open; a database that does not answer is waited for once, not for each shard.

        Once more is no error.
        """
        for served in self._served.values():
            if served.broker.runtime.store is not None:
                served.broker.runtime.store.hurry()
        failed: list[JournalFailed] = []
        for shard in list(self._served):
            try:
                await self._close(shard)
            except JournalFailed as error:
                failed.append(error)  # the others are to end in order nevertheless
        self._node.forsake(LOCAL + self._node.name)
        local, self._local = self._local, None
        if local is not None:
            await self._end(local)
            self._threads.close()
        if failed:
            raise failed[0]

    def _failed(self, shard: int, error: JournalFailed) -> None:
        """The journal of a shard takes nothing more from this node."""
        LOG.warning("shard lost", shard=shard, reason=error)
        self._node.forsake(str(shard))
        self._fenced(shard)

    async def _let_go(self, shard: int) -> None:
        served = self._served.get(shard)
        await self._close(shard)
        if served is not None:
            await self.closed(shard, served.epoch)

    async def _close(self, shard: int) -> None:
        self._node.forsake(str(shard))
        served = self._served.pop(shard, None)
        if served is not None:
            await self._end(served)

    async def _end(self, served: Served) -> None:
        await served.server.end()
        # The commit batches that it writes while it is closed concern no client; what was told before has its turn
        # first.
        served.broker.runtime.on_durable(lambda frame: None)
        await asyncio.sleep(0)
        await self._threads.run(served.broker.close)


def _pack(broker: Broker) -> None:
    """Let the next owner have what is in memory only; if that cannot be, a shard moves without it."""
    with suppress(LeveretError), broker.runtime as core:
        pack(core)


async def _nothing(shard: int, epoch: int) -> None:
    """Do nothing."""


KEPT_BYTES_MAX = 64 << 20  # of a shard: who leaves has ten seconds for all of them; what is over is lost
KEY = {"name": "transient"}


def pack(core: Core) -> None:
    """Journal what is in memory only, the oldest first; the last act of an owner, under the lock."""
    core.restorer.relocate(0, KEPT_BYTES_MAX)
    if any(queue.durable and transient(queue) for queue in core.queues.values()):
        core.define(Kind.HANDOVER, {**KEY, "planned": True})


def unpack(core: Core) -> None:
    """Keep what the last owner has packed, or drop it; the first act of an owner, under the lock."""
    found = core.catalog.get(Kind.HANDOVER, **KEY)
    if found is None:
        return
    if found["planned"]:
        core.define(Kind.HANDOVER, {**KEY, "planned": False})
    else:
        for queue in core.queues.values():
            drop_transient(queue)
        core.undefine(Kind.HANDOVER, KEY)
