"""Crashes workloads at every change of their disk, recovers what is left, and checks it.

One seed is one workload with all its crash points; the same seed crashes in the same way again.
"""

import errno
import traceback
from random import Random
from typing import Any

from leveret.core.errors import DiskFull, JournalFailed
from tests.sim.checker import Finding, History
from tests.sim.kinds import JOURNAL, AnyWorld, Kind
from tests.sim.simdisk import SHORT, SimDisk
from tests.sim.world import Inconsistent

STEPS = (6, 12, 30)
"""Most bugs need a few operations; compaction needs segments first."""
STEPS_AFTER_CRASH = 4
DEPTH_MAX = 2
DEEP_CHANCE = 0.03
"""How often a crash is followed by another one, during the recovery or soon after it."""
KILL_CHANCE = 0.15
"""How often only the process dies, and the page cache lives on."""
FAULTS = (0, 0, 0, errno.EIO, errno.EIO, errno.ENOSPC, SHORT)
FAULT_CALL_MEAN = 25
STOPS = (OSError, JournalFailed, DiskFull)
"""How a journal may end on a disk that fails; anything else is a mistake there too."""
CAPACITY_BYTES = range(2_500, 9_000)


class Explorer:
    """Counts crash points and what was found at them."""

    def __init__(self, points_max: int, kind: Kind = JOURNAL, disk_class: type[SimDisk] = SimDisk) -> None:
        self.points_max = points_max
        self.kind = kind
        self.disk_class = disk_class
        self.points = 0
        self.workloads = 0
        self.disk_failures = 0
        self.findings: list[tuple[int, Finding]] = []
        self.seed = 0
        self.rng = Random()
        self.moment: object = None

    def explore(self, seed: int, faults: dict[int, int] | None = None) -> None:
        """Run the workload of one seed, and crash it at every point; `faults` take the place of the seed's own."""
        self.seed = seed
        self.rng = Random(~seed)
        self.workloads += 1
        rng = Random(seed)
        disk = self.disk_class()
        spoil(disk, rng)
        if faults is not None:
            disk.faults = dict(faults)
        self._visit(disk, self.kind.begin(rng), rng, rng.choice(STEPS), depth=0)

    def _visit(self, disk: SimDisk, history: History[Any], rng: Random, steps: int, depth: int) -> None:
        """Recover and check a disk; with `steps`, work with it for a while and crash it at every point."""

        def watch(world: AnyWorld) -> None:
            """Crash a disk that is worked with."""
            if steps:
                self._crash(world.disk, world.history, depth + 1)

        world = self.kind.world_class(disk, history, watch, self.kind.node_class)
        try:
            world.open()
            if steps:
                self.kind.run(world, rng, steps)
        except Inconsistent as found:
            self.findings += [(self.seed, finding) for finding in found.findings]
            return
        except Exception as error:
            if not (disk.failed and isinstance(error, STOPS)):
                self.findings.append((self.seed, Finding("refused", traceback.format_exc())))
                return
            self.disk_failures += 1
        world.look()

    def _crash(self, disk: SimDisk, history: History[Any], depth: int) -> None:
        """Cut the power, or kill the process; recover, and now and then go on from there and crash again."""
        moment = (disk, disk.calls, [batch for batch, _ in history.sealed])
        if self.points >= self.points_max or (disk.clean and moment == self.moment):
            return
        self.moment = moment
        self.points += 1
        rng = Random(self.rng.random())
        crashed = disk.killed() if rng.random() < KILL_CHANCE else disk.crash(rng)
        deep = depth < DEPTH_MAX and rng.random() < DEEP_CHANCE
        self._visit(crashed, history, rng, STEPS_AFTER_CRASH if deep else 0, depth)


def spoil(disk: SimDisk, rng: Random) -> None:
    """Plan a fault for some workloads: an error, a short write, or a disk that fills up."""
    fault = rng.choice(FAULTS)
    if fault == errno.ENOSPC:
        disk.capacity_bytes = rng.choice(CAPACITY_BYTES)
    elif fault == SHORT:
        disk.faults = dict.fromkeys((some_call(rng) for _ in range(10)), SHORT)
    elif fault:
        disk.faults = {some_call(rng): fault}


def some_call(rng: Random) -> int:
    """The number of a call of the disk, rather an early one: short workloads have few."""
    return 1 + int(rng.expovariate(1 / FAULT_CALL_MEAN))
