"""Nobody answers by what was before a change that was answered: nodes that stand still, are cut off and come back."""

import asyncio
import random
from collections.abc import Collection, Iterator
from contextlib import suppress

import pytest

from leveret.clock import US_PER_S
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.catalog.log import LogEntry
from leveret.cluster.catalog.propagation import Propagation
from leveret.cluster.catalog.read_lease import LEASE_S, CatalogReader
from leveret.core.errors import StoreUnreachable, Unreachable
from tests.cluster.coordination.memory_log import MemoryLog
from tests.cluster.coordination.virtual_loop import run

STEP_S = 0.05
CHANGES = 25


class Road(MemoryLog):
    """The way of one node to the log: slow, and at times cut."""

    def __init__(self, log: MemoryLog, chance: random.Random) -> None:
        super().__init__()
        self._log = log
        self._chance = chance
        self.awake = asyncio.Event()
        self.awake.set()
        self.cut = False

    async def _pass(self) -> None:
        await asyncio.sleep(self._chance.random() * 0.1)
        await self.awake.wait()
        if self.cut:
            raise Unreachable("no way")

    async def append(self, entry: LogEntry) -> bool:
        await self._pass()
        done = await self._log.append(entry)
        await self._pass()
        return done

    async def barrier(self) -> int:
        await self._pass()
        return await self._log.barrier()

    async def read(self, version: int, limit: int) -> list[LogEntry]:
        await self._pass()
        found = await self._log.read(version, limit)
        await self._pass()
        return found

    async def renew_row(self, reader: CatalogReader) -> list[CatalogReader]:
        await self._pass()
        found = await self._log.renew_row(reader)
        await self._pass()
        return found

    async def readers(self) -> list[CatalogReader]:
        await self._pass()
        found = await self._log.readers()
        await self._pass()
        return found

    async def forget(self, reader: CatalogReader) -> None:
        await self._pass()
        await self._log.forget(reader)


class Member:
    """A node: its copy, and what it tells others."""

    def __init__(self, name: str, world: "World") -> None:
        self.name = name
        self.road = Road(world.log, world.chance)
        self.catalog = ClusterCatalog(self.road, name, 4)
        loop = asyncio.get_running_loop()
        self.catalog.read_lease.now_us = lambda: int(loop.time() * US_PER_S)
        self.knowledge = Propagation(self.catalog, lambda request: world.tell(self))
        self.linked = True
        self.tasks: set[asyncio.Task[bytes | None]] = set()

    @property
    def is_stopped(self) -> bool:
        return not self.road.awake.is_set()

    async def hear(self) -> bytes | None:
        """Know what there is, as one who is told of it."""
        await asyncio.sleep(0.01)
        try:
            await self.road.awake.wait()
            await self.catalog.catch_up()
        except Unreachable:
            return b"no catalog within reach"
        return self.catalog.reader.encode()


class World:
    """Three nodes and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log = MemoryLog()
        self.members = [Member(name, self) for name in "abc"]
        self.answered = 0
        self.waits_s: list[float] = []
        self.stale = 0
        """How often somebody could have answered by what was before."""

    def tell(self, teller: Member) -> Collection[asyncio.Future[bytes | None]]:
        answers = []
        for member in self.members:
            if member is not teller and teller.linked and member.linked:
                task = asyncio.create_task(member.hear())
                member.tasks.add(task)
                answers.append(task)
        return answers

    def look(self) -> None:
        for member in self.members:
            if not member.is_stopped and member.catalog.read_lease.is_valid:
                self.stale += member.catalog.version < self.answered

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(STEP_S)

    async def trouble(self) -> None:
        """One node after the other stands still, loses the database or its links, for less or more than a lease."""
        while True:
            await asyncio.sleep(self.chance.random() * LEASE_S)
            member = self.chance.choice(self.members)
            how = self.chance.randrange(3)
            if how == 0:
                member.road.awake.clear()
            member.road.cut = how == 1
            member.linked = how != 2
            await asyncio.sleep(self.chance.random() * 2 * LEASE_S)
            member.road.awake.set()
            self.look()  # before it has done anything
            member.road.cut, member.linked = False, True

    async def change(self, number: int) -> None:
        member = self.chance.choice([each for each in self.members if not each.is_stopped])
        began_s = asyncio.get_running_loop().time()
        await member.catalog.change(lambda core: core.declare_queue("/", f"q{number}").name)
        version = member.catalog.version
        await member.knowledge.wait_until_applied(version, lambda newest: None)
        self.answered = max(self.answered, version)
        self.waits_s.append(asyncio.get_running_loop().time() - began_s)
        self.look()

    async def play(self, changes: int = CHANGES, trouble: bool = True) -> None:
        for member in self.members:
            await member.catalog.renew_lease()
        jobs = [asyncio.create_task(each.catalog.follow()) for each in self.members]
        jobs.append(asyncio.create_task(self.watch()))
        if trouble:
            jobs.append(asyncio.create_task(self.trouble()))
        for number in range(changes):
            with suppress(Unreachable):  # of a node that has lost the database
                await self.change(number)
        for job in [*jobs, *(task for member in self.members for task in member.tasks)]:
            job.cancel()
            with suppress(asyncio.CancelledError):
                await job
        for member in self.members:
            await member.catalog.close()


async def played(seed: int, trouble: bool = True) -> World:
    world = World(seed)
    await world.play(trouble=trouble)
    return world


def worlds(count: int) -> Iterator[World]:
    return (run(played(seed)) for seed in range(count))


def test_nobody_answers_by_what_was_before_an_answered_change() -> None:
    for seed, world in enumerate(worlds(20)):
        assert world.answered
        assert not world.stale, f"seed {seed}"


@pytest.mark.parametrize("mistake", ["lapse", "lease"])
def test_who_waits_too_little_or_answers_too_long_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mistake == "lapse":
        monkeypatch.setattr("leveret.cluster.catalog.read_lease.EXPIRY", 0.1)
    else:
        monkeypatch.setattr("leveret.cluster.catalog.read_lease.ReadLease.is_valid", True)
    assert any(world.stale for world in worlds(20))


def test_a_change_waits_for_nobody_when_all_are_well() -> None:
    world = run(played(1, trouble=False))
    assert max(world.waits_s) < 1
    assert not world.stale


def test_a_node_that_is_gone_is_waited_for_once() -> None:
    async def main() -> list[float]:
        world = World(1)
        for member in world.members:
            await member.catalog.renew_lease()
        world.members[2].road.awake.clear()
        world.members[2].linked = False
        for number in range(10):
            world.chance.seed(3)
            world.members[2].road.awake.clear()
            await world.change(number)
        assert {name.partition(":")[0] for name in world.log.rows} == {"a", "b"}
        for member in world.members[:2]:
            await member.catalog.close()
        assert not world.log.rows
        return world.waits_s

    waits_s = run(main())
    assert waits_s[0] > LEASE_S
    assert max(waits_s[1:]) < 1


def test_a_node_that_is_gone_for_long_is_not_waited_for() -> None:
    async def main() -> float:
        world = World(1)
        for member in world.members:
            await member.catalog.renew_lease()
        world.members[2].road.awake.clear()
        world.members[2].linked = False
        following = [asyncio.create_task(member.catalog.follow()) for member in world.members[:2]]
        await asyncio.sleep(2 * LEASE_S)
        await world.change(1)
        for each in following:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each
        return world.waits_s[0]

    assert run(main()) < 1


def test_a_node_that_beats_and_cannot_read_holds_up_nobody_for_ever() -> None:
    class Blind(Road):
        async def read(self, version: int, limit: int) -> list[LogEntry]:
            raise Unreachable("it cannot be read")

    async def main() -> float:
        world = World(1)
        for member in world.members:
            await member.catalog.renew_lease()
        blind = world.members[2]
        blind.linked = False
        blind.catalog.log = Blind(world.log, world.chance)
        following = asyncio.create_task(blind.catalog.follow())
        for number in range(3):
            world.chance.seed(3)
            blind.road.awake.clear()  # so that somebody else changes something
            await world.change(number)
        blind.road.awake.set()
        world.look()
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        assert not world.stale
        return max(world.waits_s)

    assert LEASE_S < run(main()) < 2 * LEASE_S


def test_a_log_that_does_not_answer_makes_a_change_wait_for_everybody() -> None:
    async def main() -> None:
        world = World(1)
        first, second = world.members[:2]
        await first.catalog.renew_lease()
        await second.catalog.renew_lease()
        await first.catalog.change(lambda core: core.declare_queue("/", "q").name)
        first.road.cut, second.linked = True, False
        began_s = asyncio.get_running_loop().time()
        await first.knowledge.wait_until_applied(first.catalog.version, lambda newest: None)
        assert asyncio.get_running_loop().time() - began_s > LEASE_S
        assert not second.catalog.read_lease.is_valid

    run(main())


def test_who_cannot_ask_is_told_to_try_again() -> None:
    async def main() -> None:
        world = World(1)
        member = world.members[0]
        await member.catalog.renew_lease()
        await member.catalog.lease_renewed()
        member.road.cut = True
        following = asyncio.create_task(member.catalog.follow())
        await asyncio.sleep(LEASE_S)
        with pytest.raises(StoreUnreachable, match="try again"):
            await member.catalog.lease_renewed()
        member.road.cut = False
        await member.catalog.lease_renewed()
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following

    run(main())
