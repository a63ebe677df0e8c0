"""The whole footing: three PostgreSQL under Patroni, one more, three etcd and a Redis, on machines that can be cut off.

a, b, c    a node each, with a clock of its own
d, e, f    a PostgreSQL with its Patroni and an etcd each
g          a PostgreSQL with half of the shards
r          Redis
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.jepsen.fake_clock import FakeClock, compiled
from tests.jepsen.faults import kill_two, moving
from tests.jepsen.footing import Faults
from tests.jepsen.network import Network
from tests.jepsen.patroni import Trio
from tests.jepsen.second import Second
from tests.jepsen.world import World
from tests.machine import Machine
from tests.redis_process import RedisProcess

KEEPERS = "def"
SECOND = "g"
SHARED = "r"
JUMP_S = (20, 60)
CUT_S = (1.0, 8.0)


class Large:
    """See Footing."""

    def __init__(self, folder: Path, nodes: str) -> None:
        """Nothing runs yet."""
        self._folder = folder
        self.network = Network([*nodes, *KEEPERS, SECOND, SHARED])
        self.nodes: dict[str, Machine] = {}
        self._names = list(nodes)
        self._clocks: dict[str, FakeClock] = {}
        self._stack = ExitStack()
        self.left_out: dict[str, str] = {}
        self.faults: Faults = {
            "crash the primary PostgreSQL": self._crash,
            "switch PostgreSQL over": lambda _: self.postgres.switch_over(),
            "lose the machine of the primary": self._lose_primary,
            "crash a standby PostgreSQL": self._crash_standby,
            "crash the second PostgreSQL": self._crash_second,
            "kill an etcd": lambda world: self._kill_etcds(world, 1),
            "kill two etcds": lambda world: self._kill_etcds(world, 2),
            "pause all etcds": self._pause_etcds,
            "kill Redis": self._kill_redis,
            "pause Redis": self._pause_redis,
            "kill two nodes": kill_two,
            "clock forward": lambda world: self._jump(world, 1),
            "clock back": lambda world: self._jump(world, -1),
        }
        if self.network.why_uncut is None:
            self.faults |= self._cuts()
        else:
            self.left_out = dict.fromkeys(self._cuts(), self.network.why_uncut)

    # See Footing

    def store(self, schema: str) -> str:
        """See Footing."""
        self.postgres.sql(f"create schema {schema}")
        return self.postgres.url(schema)

    @property
    def etcd(self) -> str:
        """See Footing."""
        return ",".join(each.url for each in self._etcds.values())

    @property
    def flags(self) -> list[str]:
        """See Footing."""
        return ["--plain-auth-remote", "--cluster-plain", "--redis", self._redis.url]

    @property
    def groups(self) -> list[str]:
        """See Footing."""
        return [self._second.group]

    # Faults of PostgreSQL

    def _crash(self, world: World) -> None:
        """The primary ends without a checkpoint; Patroni makes another one of a standby."""
        former = self._primary()
        self.postgres.members[former].crash()
        self.postgres.wait_for_another(former)
        self.postgres.wait()

    def _lose_primary(self, world: World) -> None:
        """The primary and its Patroni end, and are missed when Patroni's lease has ended."""
        former = self._primary()
        self.postgres.members[former].kill()
        self.postgres.wait_for_another(former)
        self.postgres.members[former].start()
        self.postgres.wait()

    def _crash_standby(self, world: World) -> None:
        """The other standby is enough."""
        standby = world.chance.choice([name for name in KEEPERS if name != self._primary()])
        self.postgres.members[standby].crash()
        world.away()
        self.postgres.wait()

    def _crash_second(self, world: World) -> None:
        """Half of the shards have no database for a while, and one is on its way to it or from it."""
        with moving(world):
            self._second.crash()
            world.away()
            self._second.start()

    def _primary(self) -> str:
        primary = self.postgres.leader()
        assert primary is not None, "there is no primary"
        return primary

    # Faults of etcd

    def _kill_etcds(self, world: World, count: int) -> None:
        """Some of three end; two are a majority, one is not."""
        killed = world.chance.sample(list(self._etcds.values()), count)
        for etcd in killed:
            etcd.kill()
        world.away()
        for etcd in killed:
            etcd.launch()
        for etcd in killed:
            etcd.wait()

    def _pause_etcds(self, world: World) -> None:
        """etcd stands still; owners go on, and the primary does as Patroni reaches the standbys."""
        for etcd in self._etcds.values():
            etcd.signal(signal.SIGSTOP)
        world.away()
        for etcd in self._etcds.values():
            etcd.signal(signal.SIGCONT)

    # Faults of Redis

    def _kill_redis(self, world: World) -> None:
        """Redis ends, and has forgotten everything when it comes back."""
        self._redis.kill()
        world.away()
        self._redis.start()

    def _pause_redis(self, world: World) -> None:
        """Redis stands still."""
        self._redis.signal(signal.SIGSTOP)
        world.away()
        self._redis.signal(signal.SIGCONT)

    # Cuts

    def _cuts(self) -> Faults:
        return {
            "cut a node off": self._cutting(lambda world, node: ["", *self._others(node), *KEEPERS, SECOND, SHARED]),
            "cut a node from nodes": self._cutting(lambda world, node: self._others(node)),
            "cut a node from the primary": self._cutting(lambda world, node: [self._primary()]),
            "cut two nodes, one way": self._cutting(
                lambda world, node: [world.chance.choice(self._others(node))], both=False
            ),
            "cut the primary from all": self._cut_primary,
            "cut the second PostgreSQL off": self._cut_second,
        }

    def _cutting(self, targets: Callable[[World, str], list[str]], *, both: bool = True) -> Callable[[World], None]:
        def fault(world: World) -> None:
            node = world.owner()
            with self._cut(node, targets(world, node), both=both):
                world.away(*CUT_S)

        return fault

    @contextmanager
    def _cut(self, source: str, targets: list[str], *, both: bool = True) -> Iterator[None]:
        """Let nothing pass for a while."""
        self.network.cut(source, targets, both=both)
        try:
            yield
        finally:
            dropped = self.network.heal()
        assert dropped, f"nobody noticed that {source} was cut off"

    def _cut_primary(self, world: World) -> None:
        """The primary is there and reaches nobody: nothing it still commits may count."""
        former = self._primary()
        others = [name for name in KEEPERS if name != former]
        with self._cut(former, [*self._names, *others, SHARED, ""]):
            self.postgres.wait_for_another(former)
        self.postgres.wait()

    def _cut_second(self, world: World) -> None:
        """The same as when it crashes, but nobody says so."""
        with moving(world), self._cut(SECOND, self._names):
            world.away(*CUT_S)

    def _others(self, node: str) -> list[str]:
        return [name for name in self._names if name != node]

    # Clocks

    def _jump(self, world: World, sign: int) -> None:
        """The clock of a node is wrong for a while."""
        name = world.owner()
        clock = self._clocks[name]
        assert clock.is_used_by(world.nodes.pid(name)), f"node {name} does not look at its clock"
        clock.set(sign * world.chance.randint(*JUMP_S))
        world.away(2.0, 5.0)
        clock.set(0)

    # Coming and going

    def __enter__(self) -> Self:
        os.chmod(self._folder, 0o755)  # PostgreSQL is another user
        with ExitStack() as stack:
            stack.enter_context(self.network)
            self._start_etcds(stack)
            self._redis = stack.enter_context(RedisProcess(self._folder, machine=self.network.machines[SHARED]))
            keepers = [self.network.machines[name] for name in KEEPERS]
            self.postgres = Trio(self._folder, keepers, self.etcd.split(","))
            stack.callback(self.postgres.close)
            self.postgres.start()
            self._second = stack.enter_context(Second(self.network.machines[SECOND]))
            self._library = compiled(self._folder)
            for name in self._names:
                self.nodes[name] = self._with_clock(self.network.machines[name])
            self._stack = stack.pop_all()
        return self

    def _start_etcds(self, stack: ExitStack) -> None:
        self._etcds: dict[str, EtcdProcess] = {}
        for name in KEEPERS:
            machine = self.network.machines[name]
            folder = self._folder / f"etcd-{name}"
            folder.mkdir()
            self._etcds[name] = EtcdProcess(folder, host=machine.address, prefix=machine.prefix)
        for etcd in self._etcds.values():
            etcd.members = list(self._etcds.values())
            stack.push(etcd)
            etcd.launch()
        for etcd in self._etcds.values():
            etcd.wait()

    def _with_clock(self, machine: Machine) -> Machine:
        clock = self._clocks[machine.name] = FakeClock(self._folder / f"clock-{machine.name}", self._library)
        return replace(machine, environ=clock.environ)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
