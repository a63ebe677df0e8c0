"""Shards of a node that change their group: copied while they are served, then for a moment by no node.

    serving: copy what there is --> closed: copy the rest --> switch --> let go of the shard --> taken over, there

A move that fails, wherever, ends in the same way: the node lets go of the shard, and the node that takes it over is
told by the groups where it is. What it leaves in the other group is removed by the next move to there.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from leveret.cluster.shards.groups import ShardGroup, ShardGroups, ShardLocation
from leveret.core.errors import Fenced, LeveretError, NotFound, PreconditionFailed, ResourceLocked, Unreachable
from leveret.embedded.broker import Broker
from leveret.observability.logs import Log
from leveret.storage.journal.postgres.shard_copy import ShardCopy, sweep

CLOSED_S = 20.0  # from the wish to let go of a shard until it is closed
SWEEP_RETRY_S = 10.0

LOG = Log("node")


@dataclass(frozen=True, slots=True)
class Claimed:
    """A shard that this node has taken over."""

    shard_id: ShardLocation
    epoch: int


@dataclass(slots=True)
class Move:
    """A shard on its way."""

    copy: ShardCopy
    target: ShardGroup
    epoch: int
    done: asyncio.Future[None]
    prepared: bool = False
    closed: asyncio.Event = field(default_factory=asyncio.Event)


class Moving:
    """The groups as one node uses them."""

    def __init__(self, node: str, groups: ShardGroups, open_in: Callable[[str, int, int], Broker]) -> None:
        """`open_in` opens a shard of the database at a URL, at an epoch."""
        self.groups = groups
        self.known: dict[int, ShardGroup] = {}
        """The groups that this node knows."""
        self.catalog_database = 0
        """The one that has the definitions."""
        self.retake: Callable[[int], None] = lambda shard: None
        """Lets go of a shard, to take it over again."""
        self._node = node
        self._open_in = open_in
        self._claimed: dict[int, Claimed] = {}
        self._moves: dict[int, Move] = {}
        self._sweeps: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    async def learn(self) -> None:
        self.known = {group.number: group for group in await asyncio.to_thread(self.groups.all)}
        self.catalog_database = await asyncio.to_thread(self.groups.catalog_database)

    async def close(self) -> None:
        for move in self._moves.values():
            move.copy.cancel()
        for task in self._sweeps:
            task.cancel()
        await asyncio.gather(*self._sweeps, return_exceptions=True)
        await asyncio.to_thread(self.groups.close)

    def open_at(self, shard: int, epoch: int) -> Broker:
        """Take over a shard where it is; in a thread of its own."""
        shard_id = self.groups.claim(shard, epoch)
        if shard_id is None:
            raise Fenced(f"another node has claimed shard {shard} at a higher epoch than {epoch}")
        broker = self._open_in(shard_id.group.url, shard, epoch)
        self._loop.call_soon_threadsafe(self._opened, shard, Claimed(shard_id, epoch))
        return broker

    def _opened(self, shard: int, claimed: Claimed) -> None:
        self._claimed[shard] = claimed
        self.known.setdefault(claimed.shard_id.group.number, claimed.shard_id.group)
        if claimed.shard_id.origin is not None:
            task = self._loop.create_task(self._sweep(shard, claimed, claimed.shard_id.origin))
            self._sweeps.add(task)
            task.add_done_callback(self._sweeps.discard)

    def group_of(self, shard: int) -> int | None:
        """The group that a shard was in when this node took it over."""
        claimed = self._claimed.get(shard)
        return None if claimed is None else claimed.shard_id.group.number

    # Moving

    async def move(self, shard: int, number: int) -> None:
        """Move a shard that this node serves; return when it is in its new group, where it is taken over next."""
        await self.learn()
        claimed, target = self._claimed.get(shard), self.known.get(number)
        if target is None:
            raise NotFound(f"there is no group {number}: see `leveret cluster status`, or add it")
        if claimed is None:
            raise Unreachable(f"shard {shard} is not on node '{self._node}': try again")
        if claimed.shard_id.group.number == number:
            raise PreconditionFailed(f"shard {shard} is in group {number}")
        if claimed.shard_id.origin is not None:
            origin = claimed.shard_id.origin.number
            raise ResourceLocked(f"what shard {shard} left in group {origin} is not removed yet: try again in a moment")
        if self._moves:
            raise ResourceLocked(f"node '{self._node}' moves shard {next(iter(self._moves))}: try again in a moment")
        copy = ShardCopy(claimed.shard_id.group.url, target.url, shard, self._node, claimed.epoch)
        move = self._moves[shard] = Move(copy, target, claimed.epoch, self._loop.create_future())
        LOG.info("shard moves", shard=shard, group=number)
        try:
            await self._moved(shard, move)
        except TimeoutError:
            raise Unreachable(
                f"node '{self._node}' has not let go of shard {shard}: see its log, then try again"
            ) from None
        finally:
            self._moves.pop(shard, None)
            if not move.done.cancel() and not move.done.cancelled():
                move.done.exception()  # one that failed before it came to this has said why
            copy.cancel()
            await asyncio.to_thread(copy.close)
        LOG.info("shard moved", shard=shard, group=number)

    async def _moved(self, shard: int, move: Move) -> None:
        await asyncio.to_thread(move.copy.begin)
        await asyncio.to_thread(move.copy.copy_ahead)
        if not move.closed.is_set():
            move.prepared = True
            self.retake(shard)
        async with asyncio.timeout(CLOSED_S):
            await move.closed.wait()
        await move.done

    async def closed(self, shard: int, epoch: int) -> None:
        """A shard of this node was closed: if it is on its way, let it be in its new group before anybody takes it."""
        self._claimed.pop(shard, None)
        move = self._moves.get(shard)
        if move is None or move.epoch != epoch:
            return
        move.closed.set()
        try:
            if not move.prepared:
                raise Unreachable(f"shard {shard} has moved to another node meanwhile: move it again")
            await asyncio.to_thread(self._switch, shard, move)
        except Exception as error:
            LOG.error("shard not moved", shard=shard, group=move.target.number, reason=error)
            if not move.done.done():
                move.done.set_exception(error)
        else:
            if not move.done.done():  # else no caller waits for it any more
                move.done.set_result(None)

    def _switch(self, shard: int, move: Move) -> None:
        move.copy.finish()
        if not self.groups.switch(shard, move.epoch, move.target.number):
            raise Fenced(f"shard {shard} has another owner by now: move it again")

    async def _sweep(self, shard: int, claimed: Claimed, origin: ShardGroup) -> None:
        """Remove what a shard of this node has left in another group, with as many attempts as it takes."""
        while self._claimed.get(shard) is claimed:
            try:
                await asyncio.to_thread(sweep, origin.url, shard, self._node, claimed.epoch)
                await asyncio.to_thread(self.groups.swept, shard, claimed.epoch)
            except Fenced:
                return
            except LeveretError as error:
                LOG.warning("old tables of a shard not removed", shard=shard, group=origin.number, reason=error)
                await asyncio.sleep(SWEEP_RETRY_S)
            else:
                self._claimed[shard] = Claimed(ShardLocation(claimed.shard_id.group, None), claimed.epoch)
                return
