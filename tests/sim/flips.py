"""Single bits that rot in a journal that was closed: each is refused, or proven to be without effect.

Without effect means that a full recovery gives the same state, every message read back included.
"""

from random import Random

from leveret.core.errors import JournalError
from tests.sim import workload
from tests.sim.checker import Finding, Model
from tests.sim.simdisk import SimDisk
from tests.sim.world import Inconsistent, World

STEPS = 12


class Flips:
    """Counts flipped bits and what became of them."""

    def __init__(self) -> None:
        self.injected = 0
        self.detected = 0
        self.harmless = 0
        self.findings: list[tuple[int, Finding]] = []

    def inject(self, seed: int, flips: int) -> None:
        """Flip bits, one at a time, in the closed journal of one workload."""
        rng = Random(seed)
        disk, model = closed_journal(rng)
        for _ in range(flips):
            damaged = disk.crash(rng)
            name = rng.choice([name for name in damaged.names() if damaged.size(name)])
            damaged.flip(rng, name)
            self.injected += 1
            try:
                World(damaged, model, ignore).open()
                self.harmless += 1
            except JournalError:
                self.detected += 1
            except Inconsistent as found:
                self.findings += [(seed, Finding("silent", f"{name}: {finding}")) for finding in found.findings]


def closed_journal(rng: Random) -> tuple[SimDisk, Model]:
    """A disk with a journal that was closed in peace, and what it holds."""
    world = World(SimDisk(), Model(), ignore)
    world.open()
    workload.run(world, rng, STEPS)
    world.durably(world.node.close)
    return world.disk, world.model


def ignore(world: World) -> None:
    """Do not look at a world."""
