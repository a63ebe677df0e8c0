"""Crashes workloads at every change of their disk, recovers what is left, and checks it.

One seed is one workload with all its crash points; the same seed crashes in the same way again.
"""

import errno
import traceback
from random import Random

from tests.sim import workload
from tests.sim.checker import Finding, Model
from tests.sim.simdisk import SHORT, SimDisk
from tests.sim.world import Inconsistent, World

STEPS = 14
STEPS_AFTER_CRASH = 4
DEPTH_MAX = 2
DEEP_CHANCE = 0.03
"""How often a crash is followed by another one, during the recovery or soon after it."""
KILL_CHANCE = 0.15
"""How often only the process dies, and the page cache lives on."""
FAULTS = (0, 0, 0, errno.EIO, errno.ENOSPC, SHORT)
FAULT_CALLS = range(1, 80)
CAPACITY_BYTES = range(4_000, 20_000)


class Explorer:
    """Counts crash points and what was found at them."""

    def __init__(self, points_max: int, disk_class: type[SimDisk] = SimDisk) -> None:
        self.points_max = points_max
        self.disk_class = disk_class
        self.points = 0
        self.workloads = 0
        self.disk_failures = 0
        self.findings: list[tuple[int, Finding]] = []
        self.seed = 0
        self.rng = Random()
        self.moment: object = None

    def explore(self, seed: int) -> None:
        """Run the workload of one seed, and crash it at every point."""
        self.seed = seed
        self.rng = Random(~seed)
        self.workloads += 1
        rng = Random(seed)
        disk = self.disk_class()
        spoil(disk, rng)
        self._visit(disk, Model(), rng, STEPS, depth=0)

    def _visit(self, disk: SimDisk, model: Model, rng: Random, steps: int, depth: int) -> None:
        """Recover and check a disk; with `steps`, work with it for a while and crash it at every point."""

        def watch(world: World) -> None:
            """Crash a disk that is worked with."""
            if steps:
                self._crash(world.disk, world.model, depth + 1)

        world = World(disk, model, watch)
        try:
            world.open()
            if steps:
                workload.run(world, rng, steps)
        except Inconsistent as found:
            self.findings += [(self.seed, finding) for finding in found.findings]
        except Exception:
            if disk.failed:
                self.disk_failures += 1
            else:
                self.findings.append((self.seed, Finding("refused", traceback.format_exc())))
        else:
            world.look()

    def _crash(self, disk: SimDisk, model: Model, depth: int) -> None:
        """Cut the power, or kill the process; recover, and now and then go on from there and crash again."""
        moment = (id(disk), disk.calls, [frame for frame, _ in model.sealed])
        if self.points >= self.points_max or (disk.clean and moment == self.moment):
            return
        self.moment = moment
        self.points += 1
        rng = Random(self.rng.random())
        crashed = disk.killed() if rng.random() < KILL_CHANCE else disk.crash(rng)
        deep = depth < DEPTH_MAX and rng.random() < DEEP_CHANCE
        self._visit(crashed, model, rng, STEPS_AFTER_CRASH if deep else 0, depth)


def spoil(disk: SimDisk, rng: Random) -> None:
    """Plan a fault for some workloads: an error, a short write, or a disk that fills up."""
    fault = rng.choice(FAULTS)
    if fault == errno.ENOSPC:
        disk.capacity_bytes = rng.choice(CAPACITY_BYTES)
    elif fault == SHORT:
        disk.faults = dict.fromkeys(rng.sample(FAULT_CALLS, 10), SHORT)
    elif fault:
        disk.faults = {rng.choice(FAULT_CALLS): fault}
