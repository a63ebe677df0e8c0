"""What operators do to the groups of a cluster, through any of its nodes: add and remove one, move what is in them."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from leveret.cluster.coordination.coordinator import Coordinator
from leveret.cluster.node import Node
from leveret.cluster.rpc.calls import call
from leveret.cluster.shards.groups import GroupFacts, check_url, facts_of
from leveret.cluster.shards.moving import Moving
from leveret.core.errors import InvalidArgument, LeveretError, NotFound, PreconditionFailed, Unreachable
from leveret.observability.logs import Log
from leveret.storage.options import shown

REACH, LEARN, MOVE = "reach", "learn", "move"
REACH_S = 20.0
MOVE_S = 3600.0  # of one shard that a node moves for another one: gigabytes take their time
WAIT_S = 50.0  # less than the time for which a command waits
ATTEMPTS, RETRY_S = 10, 2.0

LOG = Log("node")


class GroupOperations:
    """The groups for the operators of one node."""

    def __init__(self, node: Node, coordinator: Coordinator, moving: Moving) -> None:
        self._node = node
        self._coordinator = coordinator
        self._moving = moving
        self._tasks: set[asyncio.Task[Any]] = set()
        node.call_handlers.works |= {REACH: self._reach, LEARN: self._learn, MOVE: self._move}

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # What operators ask for

    async def add(self, url: str, shards: int | None = None) -> dict[str, Any]:
        """Add a group, then move some shards there, one by one after this."""
        check_url(url)
        mine = await self._reached(url)
        group = await asyncio.to_thread(self._moving.groups.add, url)
        await self._learnt()
        catalog_database = self._moving.known[self._moving.catalog_database]
        first = await asyncio.to_thread(facts_of, catalog_database.url)
        places = await asyncio.to_thread(self._moving.groups.places)
        chosen = share(places, len(self._moving.known), group.number, shards)
        self._begin(self._move_all(chosen, group.number))
        return {
            "group": group.number,
            "url": shown(url),
            "shards": chosen,
            "warnings": warnings(mine, first, catalog_database.number),
        }

    async def move_catalog(self, group: int) -> dict[str, Any]:
        await self._learn({})
        if group not in self._moving.known:
            raise NotFound(f"there is no group {group}: see `leveret cluster status`, or add it")
        await self._reached(self._moving.known[group].url)
        await asyncio.to_thread(self._moving.groups.move_catalog_database, group)
        LOG.info("definitions moved", group=group)
        await self._learnt()
        return {"group": group, "url": shown(self._moving.known[group].url)}

    async def remove(self, group: int) -> dict[str, Any]:
        """Take a group that has nothing any more off the list."""
        await self._learn({})
        await asyncio.to_thread(self._moving.groups.retire, group, self._coordinator.shard_count)
        url = shown(self._moving.known[group].url)
        LOG.info("group removed", group=group)
        await self._learn({})
        told = [call(link, LEARN, {}, REACH_S) for link in self._node.links.values()]
        await asyncio.gather(*told, return_exceptions=True)  # who does not hear of it now does when it is started again
        return {"group": group, "url": url}

    async def _reached(self, url: str) -> GroupFacts:
        """Ask a database what it is, from every node."""
        facts = await asyncio.to_thread(facts_of, url)
        for name in [name for name in self._coordinator.view.members if name != self._node.name]:
            try:
                await call(self._node.links.get(name), REACH, {"url": url}, REACH_S)
            except LeveretError as error:
                raise PreconditionFailed(f"node '{name}' does not reach the group: {error}") from error
        return facts

    async def _learnt(self) -> None:
        """Hear of all groups, and let the others do so."""
        await self._learn({})
        for link in self._node.links.values():
            self._begin(call(link, LEARN, {}, REACH_S))

    async def move(self, shard: int, group: int) -> dict[str, Any]:
        """Move a shard to another group; return when it is there."""
        if not 0 <= shard < self._coordinator.shard_count:
            raise InvalidArgument(f"there is no shard {shard}: they are 0 to {self._coordinator.shard_count - 1}")
        task = self._begin(self._move_one(shard, group))
        try:
            await asyncio.wait_for(asyncio.shield(task), WAIT_S)
        except TimeoutError:
            raise Unreachable(
                f"shard {shard} is still on its way: `leveret cluster status` tells when it is there"
            ) from None
        return {"shard": shard, "group": group}

    # Groups as they are shown

    def known(self) -> dict[str, str]:
        return {str(number): shown(group.url) for number, group in self._moving.known.items()}

    # What other nodes ask for

    async def _reach(self, about: dict[str, Any]) -> None:
        await asyncio.to_thread(facts_of, str(about.get("url")))

    async def _learn(self, about: dict[str, Any]) -> None:
        await self._moving.learn()

    async def _move(self, about: dict[str, Any]) -> None:
        await self._moving.move(int(about["shard"]), int(about["group"]))

    # Moves

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do something after this; what is refused is said in the log as well."""
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_noticed)
        return task

    async def _ask_owner(self, shard: int, group: int) -> None:
        owner = self._coordinator.view.owners.get(shard)
        if owner is None or not owner.epoch:
            raise Unreachable(f"no node serves shard {shard} just now: try again in a moment")
        about = {"shard": shard, "group": group}
        if owner.node == self._node.name:
            await self._move(about)
        else:
            await call(self._node.links.get(owner.node), MOVE, about, MOVE_S)

    async def _move_one(self, shard: int, group: int) -> None:
        """Move a shard; one that cannot be moved now, as it changes its owner just then, has some more chances."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._ask_owner(shard, group)
                return
            except NotFound:
                raise
            except PreconditionFailed:
                if attempt == 1:
                    raise
                return  # it is there: the answer to the attempt before was lost
            except LeveretError as error:
                if attempt == ATTEMPTS:
                    raise
                LOG.warning("shard not moved yet", shard=shard, group=group, reason=error)
                await asyncio.sleep(RETRY_S)

    async def _move_all(self, shards: list[int], group: int) -> None:
        for shard in shards:
            with suppress(PreconditionFailed):  # it is there already
                await self._move_one(shard, group)


def share(groups: Mapping[int, int], group_count: int, target: int, count: int | None) -> list[int]:
    """The shards that a group should get: from those that have most, until it has its fair share, or some more."""
    left = dict(groups)
    wanted = len(groups) // group_count - list(groups.values()).count(target) if count is None else count
    chosen: list[int] = []
    while len(chosen) < wanted:
        counts = Counter(group for group in left.values() if group != target)
        if not counts:
            break
        fullest = max(counts, key=lambda group: (counts[group], -group))
        chosen.append(max(shard for shard, group in left.items() if group == fullest))
        del left[chosen[-1]]
    return chosen


def warnings(added: GroupFacts, first: GroupFacts, catalog_database: int) -> list[str]:
    """What an operator should know about a group before it has messages; `first` is the one with the definitions."""
    found = []
    if not added.standbys:
        found.append("no standby confirms its commits: what it has is lost with its disk (synchronous_standby_names)")
    if added.version != first.version:
        found.append(f"it is PostgreSQL {added.version}, and group {catalog_database} is {first.version}")
    return found


def _noticed(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        LOG.warning("not done", reason=task.exception())
