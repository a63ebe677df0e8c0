"""A node at work in its cluster: the lease, the watch and the commands of ownership.py, as tasks of one event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Protocol

from leveret.cluster.coordination.etcd import Done, Etcd
from leveret.cluster.coordination.keys import ClusterMembership, EtcdKeys, NodeMember, Owner, check_node
from leveret.cluster.coordination.ownership import (
    Announce,
    Campaign,
    CheckEpoch,
    Command,
    DrainShard,
    Drop,
    Ownership,
    Release,
    TakeOver,
)
from leveret.cluster.coordination.placement import SHARDS
from leveret.core.errors import LeveretError, ResourceLocked
from leveret.observability.logs import Log

TTL_S = 4
STEP_S = 0.05
PAUSE_S = 0.25  # before etcd is asked again that did not answer
JOIN_ATTEMPTS = 3  # for a name whose last holder may have died without a word: its lease ends meanwhile
COUNTS = ("takeovers", "takeovers_failed", "takeover_ms", "shards_lost")

log = Log("cluster")


class Shards(Protocol):
    """What a coordinator does with the shards of its node."""

    async def take_over(self, shard: int, epoch: int) -> bool:
        """Begin to serve a shard; False when another owner has a higher epoch. Whatever it raises, nothing is
        served.
        """

    async def check(self, shard: int, epoch: int) -> bool:
        """Whether the journal of a shard still has this epoch."""

    async def drain(self, shard: int) -> None:
        """Finish what was begun, write a checkpoint, serve the shard no more."""

    async def drop(self, shard: int) -> None:
        """Serve a shard no more: it belongs to another node."""


class Coordinator:
    """One node of a cluster."""

    def __init__(
        self, etcd: Etcd, cluster: str, member: NodeMember, shards: Shards, *,
        shard_count: int = SHARDS, view: ClusterMembership | None = None, epoch_base: int = 0, ttl_s: int = TTL_S,
        on_catalog: Callable[[int], None] = lambda version: None,
    ) -> None:  # fmt: skip
        """Not a member yet; `member` is this node as others shall see it, `on_catalog` hears hints."""
        self.keys = EtcdKeys(cluster)
        self.member = replace(member, node=check_node(member.node))
        self.shard_count = shard_count
        self.counts = dict.fromkeys(COUNTS, 0)
        """What has happened to shards since this node was started."""
        self.trouble: str | None = None
        """Why etcd did not renew the lease."""
        self.view = view or ClusterMembership(self.keys, shard_count)
        self.ownership = Ownership(member.node, self.view, shard_count, epoch_base, ttl_s * 1000)
        self._etcd = etcd
        self._shards = shards
        self._ttl_s = ttl_s
        self._on_catalog = on_catalog
        self._stale = asyncio.Event()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._carry_out: dict[type[Command], Callable[[Any], Coroutine[Any, Any, None]]] = {
            Campaign: self._campaign,
            TakeOver: self._take_over,
            Announce: self._announce,
            CheckEpoch: self._check,
            DrainShard: self._drain,
            Drop: self._drop,
            Release: self._release,
        }

    # Joining and leaving

    async def join(self) -> None:
        """Become a member; refuse when another process has the name of this node."""
        for attempt in range(JOIN_ATTEMPTS):
            if attempt:
                await asyncio.sleep(self._ttl_s)
            if await self._begin_lease():
                break
        else:
            raise ResourceLocked(f"another process is the node '{self.member.node}': stop it, or choose another name")
        for loop in (self._keep_lease, self._follow, self._steps):
            self._start(loop())

    async def drain(self) -> None:
        """Give all shards away; returns when others have been told."""
        self.ownership.drain()
        self.member = replace(self.member, draining=True)
        self._stale.set()
        self._woken()
        while not self.ownership.empty:
            await asyncio.sleep(STEP_S)

    async def leave(self) -> None:
        """End: without drain, others take the shards when they notice that the lease has ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for shard in self.ownership.serving():
            await self._ask(self._shards.drop(shard), "drop", shard)
        try:
            if self.ownership.lease:
                await self._etcd.revoke(self.ownership.lease)
        except LeveretError as error:
            log.warning("etcd was not told that this node leaves", reason=error)

    def retake(self, shard: int) -> None:
        """Let go of a shard of this node, and take it over again at another epoch."""
        self.ownership.retake(shard)
        self._woken()

    def rebalance(self) -> None:
        """Let shards go to the nodes that should have them, now."""
        self.ownership.rebalance(self.now_ms())
        self._woken()

    def fenced(self, shard: int) -> None:
        """The journal of a shard refused an append: it has another epoch."""
        self.ownership.fenced(shard)
        self._woken()

    def proven(self, shard: int) -> bool:
        """Whether no other node can own a shard of this node now."""
        return self.ownership.proven(shard, self.now_ms())

    async def hint(self, version: int) -> None:
        """Tell the other nodes that the catalog has a new version; those who do not hear it look now and then."""
        with suppress(LeveretError):
            await self._etcd.put(self.keys.catalog, str(version))

    def now_ms(self) -> int:
        """The time of leases: that of the loop, which no operator can set."""
        return int(asyncio.get_running_loop().time() * 1000)

    # The lease

    async def _begin_lease(self) -> bool:
        """A new lease with the key of this node; False when another process has that key."""
        asked_ms = self.now_ms()
        lease = await self._etcd.grant(self._ttl_s)
        done = await self._etcd.create(self.keys.node(self.member.node), self.member.to_value(), lease)
        if not done.succeeded:
            await self._etcd.revoke(lease)
            return False
        self._renewed(lease, asked_ms)
        return True

    def _renewed(self, lease: int, asked_ms: int) -> None:
        self.ownership.renewed(lease, asked_ms + self._ttl_s * 1000)
        self._woken()

    async def _keep_lease(self) -> None:
        while True:
            await _set_or_later(self._stale, self._ttl_s / 3)
            try:
                await self._renew()
                self.trouble = None
            except Exception as error:
                self.trouble = str(error)
                # Not yet lost: etcd may have it still, and an outage is no reason to stop.
                log.warning("the lease was not renewed", reason=error)
                await asyncio.sleep(PAUSE_S)

    async def _renew(self) -> None:
        """Renew the lease; a lost one is replaced as soon as etcd has removed the key of the old one."""
        asked_ms, lease = self.now_ms(), self.ownership.lease
        if lease and await self._etcd.keep_alive(lease):
            self._renewed(lease, asked_ms)
            if self._stale.is_set():
                await self._etcd.put(self.keys.node(self.member.node), self.member.to_value(), lease)
                self._stale.clear()
            return
        if lease:
            log.warning("the lease has ended: shards stay here while their journals accept that", lease=lease)
            self.ownership.renewed(0, 0)
        await self._begin_lease()

    # The view

    async def _follow(self) -> None:
        """Read all keys, then what changes; begin anew when the watch ends, which it does when all is quiet."""
        while True:
            try:
                found = await self._etcd.range(self.keys.prefix)
                self.view.reset(found)
                self._woken()
                async with aclosing(self._etcd.watch(self.keys.prefix, found.revision + 1)) as changes:
                    async for events in changes:
                        self.view.apply(events)
                        self._woken()
            except Exception as error:
                log.warning("etcd does not say who is there", reason=error)
                await asyncio.sleep(PAUSE_S)

    # Commands

    async def _steps(self) -> None:
        while True:
            self._wake.clear()
            try:
                for command in self.ownership.step(self.now_ms()):
                    self._start(self._carry_out[type(command)](command))
            except Exception as error:
                log.error("a step failed", error)
                await asyncio.sleep(PAUSE_S)
            await _set_or_later(self._wake, STEP_S)

    def _woken(self) -> None:
        self._wake.set()
        self._on_catalog(self.view.catalog_version)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _campaign(self, command: Campaign) -> None:
        lease = self.ownership.lease
        value = Owner(self.member.node, 0, lease, command.epoch).to_value()
        shard = command.shard
        done = await self._try(self._etcd.create(self.keys.shard(shard), value, lease, self.keys.successor(shard)))
        # A key of a lease that ended meanwhile is worth nothing.
        won = done.succeeded and lease == self.ownership.lease
        self.ownership.campaigned(shard, done.revision if won else 0, self.now_ms())
        self._woken()

    async def _announce(self, command: Announce) -> None:
        lease = self.ownership.lease
        value = Owner(self.member.node, command.revision, lease, command.epoch).to_value()
        done = await self._try(self._etcd.replace(self.keys.shard(command.shard), command.revision, value, lease))
        self.ownership.announced(command.shard, done.revision if done.succeeded else 0)
        self._woken()

    async def _release(self, command: Release) -> None:
        hint = (self.keys.successor(command.shard), command.successor, self.ownership.lease)
        key = self.keys.shard(command.shard)
        done = await self._try(self._etcd.remove(key, command.revision, hint if command.successor else None))
        self.ownership.released(command.shard, done.revision if done.succeeded else 0, self.now_ms())
        self._woken()

    async def _take_over(self, command: TakeOver) -> None:
        asked_ms = self.now_ms()
        taken = await self._ask(self._shards.take_over(command.shard, command.epoch), "take over", command.shard)
        log.info("shard taken over" if taken else "shard not taken over", shard=command.shard, epoch=command.epoch)
        self.counts["takeovers" if taken else "takeovers_failed"] += 1
        self.counts["takeover_ms"] += self.now_ms() - asked_ms if taken else 0
        self.ownership.taken_over(command.shard, bool(taken), asked_ms if taken else self.now_ms())
        self._woken()

    async def _check(self, command: CheckEpoch) -> None:
        asked_ms = self.now_ms()
        mine = await self._ask(self._shards.check(command.shard, command.epoch), "check", command.shard)
        self.ownership.checked(command.shard, mine, asked_ms)
        if mine is not None:  # else the next step asks again: a database that is away refuses at once
            self._woken()

    async def _drain(self, command: DrainShard) -> None:
        await self._ask(self._shards.drain(command.shard), "drain", command.shard)
        self.ownership.drained(command.shard)
        self._woken()

    async def _drop(self, command: Drop) -> None:
        self.counts["shards_lost"] += 1
        log.warning("shard lost to another node", shard=command.shard)
        await self._ask(self._shards.drop(command.shard), "drop", command.shard)
        self.ownership.dropped(command.shard, self.now_ms())
        self._woken()

    async def _try(self, transaction: Coroutine[Any, Any, Done]) -> Done:
        """The outcome of a transaction; one whose answer is lost counts as not done: the view will tell."""
        try:
            return await transaction
        except Exception as error:
            log.warning("etcd did not do it", reason=error)
            return Done(False, 0)

    async def _ask(self, work: Coroutine[Any, Any, Any], verb: str, shard: int) -> Any:
        """What the shards of this node say; None when they fail."""
        try:
            return await work
        except Exception as error:  # whatever it is, the shard is not to stay between two owners
            unknown = None if isinstance(error, LeveretError) else error
            log.error(f"cannot {verb} a shard", unknown, shard=shard, reason=error)
            return None


async def _set_or_later(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for an event, but not for long: time is an event too."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
