"""A node: the real ownership and membership, driven as leveret.cluster.coordination.coordinator does, with the
shards it serves.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from leveret.cluster.coordination.etcd import Done, KeyEvent, KeyRange
from leveret.cluster.coordination.keys import ClusterMembership, EtcdKeys, NodeMember, Owner
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
from leveret.core.errors import DamagedJournal, LeveretError
from leveret.storage.journal.postgres.store import Takeover
from leveret.storage.journal.postgres.table import Unknown
from tests.sim.cluster.database import Database
from tests.sim.cluster.loop import Loop
from tests.sim.cluster.registry import Registry
from tests.sim.cluster.shard import Server, ShardHost
from tests.sim.cluster.table import SimTable

KEYS = EtcdKeys("sim")
TTL_MS = 3_000
STEP_MS = 100
FOLLOW_MS = 5_000
RATES = (0.97, 1.0, 1.03)
"""How fast the clock of a node goes."""


class Node(Server):
    """One process of a node; the next one of the same name is another object."""

    host_class = ShardHost
    table_class = SimTable

    def __init__(self, loop: Loop, name: str, life: int, registry: Registry, database: Database, shards: int) -> None:
        super().__init__(loop)
        self.shards = shards
        self.name = name
        self.member = NodeMember(name)
        self.view = ClusterMembership(KEYS, shards)
        self.ownership = Ownership(name, self.view, shards, 1, TTL_MS)
        self.hosts: dict[int, ShardHost] = {}
        self._life = life
        self._registry = registry
        self._database = database
        self._rate = loop.random.choice(RATES)
        self._carry_out: dict[type[Command], Callable[[Any], None]] = {
            Campaign: self._campaign,
            TakeOver: self._take_over,
            Announce: self._announce,
            CheckEpoch: self._check,
            DrainShard: self._drain,
            Drop: self._drop,
            Release: self._release,
        }
        for work in (self._keep_lease, self._follow, self._steps):
            self.spawn(work)

    def now_ms(self) -> int:
        """The time as this node has it."""
        return int(self.loop.now_ms * self._rate)

    # The three tasks of a coordinator

    def _keep_lease(self) -> None:
        while True:
            asked_ms, lease = self.now_ms(), self.ownership.lease
            kept = self._ask(partial(self._registry.keep_alive, lease)) if lease else False
            if kept:
                self.ownership.renewed(lease, asked_ms + TTL_MS)
                self.sleep(TTL_MS / 3)
            elif kept is False:
                self.ownership.renewed(0, 0)
                self._begin_lease(asked_ms)
                self.sleep(STEP_MS)

    def _begin_lease(self, asked_ms: int) -> None:
        lease = self._ask(lambda: self._registry.grant(TTL_MS))
        if lease:
            key = KEYS.node(self.name)
            done = self._ask(lambda: self._registry.create(key, self.member.to_value(), lease))
            if done and done.succeeded:
                self.ownership.renewed(lease, asked_ms + TTL_MS)

    def _follow(self) -> None:
        while True:
            if self._ask(partial(self._registry.watch, self, self._reset, self._apply)):
                self.sleep(FOLLOW_MS)

    def _reset(self, found: KeyRange) -> None:
        self.view.reset(found)
        self.step()

    def _apply(self, events: list[KeyEvent]) -> None:
        self.view.apply(events)
        self.step()

    def _steps(self) -> None:
        while True:
            self.step()
            self.sleep(STEP_MS)

    def step(self) -> None:
        """Carry out what has become due."""
        for command in self.ownership.step(self.now_ms()):
            self.spawn(lambda command=command: self._carry_out[type(command)](command))  # type: ignore[misc]

    # Commands

    def _ask(self, request: Callable[[], Any]) -> Any:
        return self._registry.ask(self, request)

    def _transact(self, request: Callable[[], Done]) -> int:
        """The revision of a transaction, or 0 when it was not done or nobody knows."""
        done = self._ask(request)
        return done.revision if done is not None and done.succeeded else 0

    def _campaign(self, command: Campaign) -> None:
        lease, shard = self.ownership.lease, command.shard
        value = Owner(self.name, 0, lease, command.epoch).to_value()
        revision = self._transact(lambda: self._registry.create(KEYS.shard(shard), value, lease, KEYS.successor(shard)))
        self.ownership.campaigned(shard, revision if lease == self.ownership.lease else 0, self.now_ms())
        self.step()

    def _announce(self, command: Announce) -> None:
        lease, key = self.ownership.lease, KEYS.shard(command.shard)
        value = Owner(self.name, command.revision, lease, command.epoch).to_value()
        revision = self._transact(lambda: self._registry.replace(key, command.revision, value, lease))
        self.ownership.announced(command.shard, revision)

    def _release(self, command: Release) -> None:
        hint = (KEYS.successor(command.shard), command.successor, self.ownership.lease) if command.successor else None
        revision = self._transact(lambda: self._registry.remove(KEYS.shard(command.shard), command.revision, hint))
        self.ownership.released(command.shard, revision, self.now_ms())
        self.step()

    def _take_over(self, command: TakeOver) -> None:
        shard, asked_ms = command.shard, self.now_ms()
        table = self.table_class(self, self._database, shard)
        claim = Takeover(f"{self.name}:{self._life}", command.epoch)
        try:
            fenced = lambda: self._fenced(shard, command.epoch)  # noqa: E731
            host = self.host_class(self, table, shard, claim, fenced, lambda error: self._damaged(error, command))
        except DamagedJournal as damaged:
            self._damaged(damaged, command)
            self.ownership.taken_over(shard, False, self.now_ms())
        except LeveretError:
            self.ownership.taken_over(shard, False, self.now_ms())
        else:
            self.hosts[shard] = host
            self.spawn(host.run)
            self.ownership.taken_over(shard, True, asked_ms)
        self.step()

    def _fenced(self, shard: int, epoch: int) -> None:
        if self.ownership.epoch(shard) == epoch:
            self.ownership.fenced(shard)

    def _damaged(self, error: DamagedJournal, command: TakeOver) -> None:
        """Something cannot be read: no wonder if the owner has removed it, who is somebody else."""
        if self._database.states[command.shard].shard.epoch == command.epoch:
            self._database.history.find("damaged", str(error))

    def _check(self, command: CheckEpoch) -> None:
        asked_ms = self.now_ms()
        try:
            mine = self.table_class(self, self._database, command.shard).shard().epoch == command.epoch
        except Unknown:
            mine = None
        self.ownership.checked(command.shard, mine, asked_ms)

    def _drain(self, command: DrainShard) -> None:
        host = self.hosts.pop(command.shard)
        if host.open:
            self.wait(lambda wake: host.drain(lambda: self.loop.after(0, lambda: wake(None))))
        self.ownership.drained(command.shard)
        self.step()

    def _drop(self, command: Drop) -> None:
        self.hosts.pop(command.shard).drop()
        self.ownership.dropped(command.shard, self.now_ms())
        self.step()

    # What operators do

    def leave(self) -> None:
        """Drain, then end; the key of the node says so meanwhile."""
        self.ownership.drain()
        self.member = replace(self.member, draining=True)
        self.spawn(self._leave)

    def _leave(self) -> None:
        until_ms = self.loop.now_ms + 10_000
        while not self.ownership.empty and self.loop.now_ms < until_ms:
            self.sleep(STEP_MS)
        self._ask(lambda: self._registry.revoke(self.ownership.lease))
        self.kill()

    def serving(self, shard: int) -> ShardHost | None:
        """The shard, if this node serves it."""
        host = self.hosts.get(shard)
        return host if host is not None and host.open and self.ownership.epoch(shard) == host.epoch else None

    def proven(self, shard: int) -> bool:
        """Whether deliveries may begin."""
        return self.ownership.proven(shard, self.now_ms())
