"""Single bits that rot in a journal that nobody has open: each is refused, or proven to be without effect.

The journal was closed in peace, or its process was killed while it was idle. (A process that is killed while it writes
leaves a last frame that may be torn, and nobody can tell a torn frame from a rotten one.)

Without effect means that recovery gives the same state, every message read back included. The spare file is left out:
nobody reads it.
"""

from collections import Counter
from random import Random

from leveret.core.errors import JournalError
from leveret.journal.writer import SPARE_NAME
from tests.sim import workload
from tests.sim.checker import Finding, Model
from tests.sim.node import Node
from tests.sim.simdisk import SimDisk
from tests.sim.world import Inconsistent, JournalWorld

STEPS = 20
FLIPS_PER_WORKLOAD = 10


class Flips:
    """Counts flipped bits and what became of them."""

    def __init__(self, disk_class: type[SimDisk] = SimDisk, node_class: type[Node] = Node) -> None:
        self.disk_class = disk_class
        self.node_class = node_class
        self.injected = 0
        self.detected = 0
        self.harmless: Counter[str] = Counter()
        self.findings: list[tuple[int, Finding]] = []

    def inject(self, seed: int) -> None:
        """Flip some bits, one at a time, in the journal of one workload."""
        rng = Random(seed)
        left = self._left(rng)
        for _ in range(FLIPS_PER_WORKLOAD):
            damaged = left.disk.crash(rng)
            name = rng.choice([name for name in damaged.names() if name != SPARE_NAME and damaged.size(name)])
            damaged.flip(rng, name)
            self.injected += 1
            world = JournalWorld(damaged, left.history, ignore, self.node_class)
            try:
                world.open()
            except JournalError:
                self.detected += 1
            except Inconsistent as found:
                self.findings += [(seed, Finding("silent", f"{name}: {finding}")) for finding in found.findings]
            else:
                self.harmless[kind_of(name)] += 1
                if world.node.identity != left.node.identity:
                    self.findings.append((seed, Finding("silent", f"{name}: {world.node.identity}")))

    def _left(self, rng: Random) -> JournalWorld:
        """A journal that was closed in peace or killed in peace, and what it holds."""
        world = JournalWorld(self.disk_class(), Model(), ignore, self.node_class)
        world.open()
        workload.run(world, rng, STEPS)
        world.durably(rng.choice((world.node.close, world.node.rest)))
        return world


def kind_of(name: str) -> str:
    """A file name without its number."""
    return name.split("-")[0]


def ignore(world: object) -> None:
    """Do not look at a world."""
