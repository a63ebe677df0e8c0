"""Single bits that rot in a journal that nobody has open: each is detected, and those that start up are without effect.

The journal was closed in peace, or its process was killed while it was idle. (A process that is killed while it writes
leaves a last frame that may be torn, and nobody can tell a torn frame from a rotten one.)

Detected means that it is refused at the start, or found by a full check of the directory. What a start does not refuse
must be without effect: recovery gives the same state, every message read back included. The spare and the lock file are
left out: nobody reads them.
"""

from random import Random

from leveret.core.errors import JournalError
from leveret.storage.disk import LOCK_NAME
from leveret.storage.journal.files.meta import read_meta
from leveret.storage.journal.files.recovery import verify
from leveret.storage.journal.files.segments import segment_name, segment_numbers
from leveret.storage.journal.files.store import SPARE_NAME
from tests.sim import workload
from tests.sim.checker import Finding, Model
from tests.sim.node import Node
from tests.sim.simdisk import SimDisk
from tests.sim.world import Inconsistent, JournalWorld

UNREAD = (SPARE_NAME, LOCK_NAME)
STEPS = 20
FLIPS_PER_WORKLOAD = 10


class Flips:
    """Counts flipped bits and what became of them."""

    def __init__(self, disk_class: type[SimDisk] = SimDisk, node_class: type[Node] = Node) -> None:
        self.disk_class = disk_class
        self.node_class = node_class
        self.injected = 0
        self.detected = 0
        self.refused = 0
        self.findings: list[tuple[int, Finding]] = []

    def inject(self, seed: int) -> None:
        """Flip some bits, one at a time, in the journal of one workload."""
        rng = Random(seed)
        left = self._left(rng)
        for _ in range(FLIPS_PER_WORKLOAD):
            damaged = left.disk.crash(rng)
            name = rng.choice(read_names(damaged))
            damaged.flip(rng, name)
            self.injected += 1
            if verify(damaged):
                self.detected += 1
            else:
                self.findings.append((seed, Finding("silent", f"{name}: a full check does not see it")))
            world = JournalWorld(damaged, left.history, ignore, self.node_class)
            try:
                world.open()
            except JournalError:
                self.refused += 1
            except Inconsistent as found:
                self.findings += [(seed, Finding("silent", f"{name}: {finding}")) for finding in found.findings]
            else:
                if world.node.identity != left.node.identity:
                    self.findings.append((seed, Finding("silent", f"{name}: {world.node.identity}")))

    def _left(self, rng: Random) -> JournalWorld:
        """A journal that was closed in peace or killed in peace, and what it holds."""
        world = JournalWorld(self.disk_class(), Model(), ignore, self.node_class)
        world.open()
        workload.run(world, rng, STEPS)
        world.durably(rng.choice((world.node.close, world.node.rest)))
        return world


def read_names(disk: SimDisk) -> list[str]:
    """The files that somebody may read: not those which a crash brought back after they were removed."""
    oldest = read_meta(disk).oldest
    removed = {segment_name(number) for number in segment_numbers(disk) if number < oldest}
    return [name for name in disk.names() if name not in UNREAD and name not in removed and disk.size(name)]


def ignore(world: object) -> None:
    """Do not look at a world."""
